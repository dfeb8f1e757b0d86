"""Mark words (TODO and its like), and what tells them from a program's own vocabulary.

Pure patterns, for text that was already told apart from code, strings and quotations.
"""

from __future__ import annotations

import re

__all__ = ["DOMAIN", "MARK", "MARK_LOOSE", "MENTION"]

_I = re.IGNORECASE

# A mark at the start of a line, whatever its case, with what shows that it is one.
MARK = re.compile(
    r"^\W*(?P<mark>(?:TODO|FIXME|TBD|HACK|XXX|(?i:@?(?:todo|fixme|tbd|hack)(?=\s*(?:[:(\[!]|-\s|–|—)|\s*$)))"
    r"|(?i:(?:todo|fixme)(?=\s+(?:implement|fix|handle|finish|refactor|clean up|optimi[sz]e|improve|validate|later|this)\b)))"
    r"(?![\w-]|\.\w|\s*=)",
)
# A mark inside a line: capital letters only, and set off from the sentence or pointed.
MARK_LOOSE = re.compile(
    r"(?:(?:^|[.;:!?)\]–—]\s+|\s-+\s+|\(|\[|,\s+)(?P<a>TODO|FIXME|TBD|HACK|XXX)(?![\w-]|\.\w)"
    r"|(?<![\w-])(?P<b>TODO|FIXME|TBD|HACK|XXX)(?:\([\w .@#-]{1,40}\))?\s*[:!](?!:)"
    r"|(?<![\w-])(?P<c>FIXME|TBD|TODO)\W*$)"
)
# After a mark: the word is the name of a thing, as in a to-do app, or one of a list of marks.
DOMAIN = re.compile(
    r"^(?:'?s\b|/|\||`|\s*(?:,|/|\||&|->|→|=>)\s*(?:DOING|DONE|FIXME|HACK|XXX|TBD|IN.PROGRESS|TODO|BUG|NOTE|OPEN|and|or)\b|"
    r"\s+(?:lists?|apps?|applications?|items?|comments?|marks?|markers?|states?|columns?|entry|entries|tags?|labels?|tasks?|cards?|"
    r"DOING|DONE|FIXME|or|and|is|are|has|holds|handlers?|stores?|models?|views?|pages?|services?|components?|controllers?|API|reducer|"
    r"routes?|schema|types?|interface|CRUD|managers?|boards?|lines?|words?|keywords?|text|title|titles|status|counter|count|created|"
    r"updated|deleted|does|was|were|will be|to be shown|resource|endpoint|repository|entity|data|object|class|struct|record|row|table|"
    r"id|name|field|fields|form|input|button|notes?|annotations?|detector|scanner|checker|found|rule|rules|checks|check(?=\s+(?:is|was|has|runs|fails|passes|rejects)\b)|prefix|pattern|by(?=\s+(?:id|ids|its|index|name|status|key|user|owner|date|uuid|slug)\b)|for each)\b"
    # "list", "store", "record" … before an object are what is still to be done, not what the program deals with.
    r"(?!\s+(?:the|an?|all|this|these|those|it|them|our|my|each|every|some|any)\b))",
)
# The sentence talks about marks; it is none.
MENTION = re.compile(
    r"\b(?:such as|e\.g\.|for example|example|like|match(?:es|ing)?|starts? with|begins? with|prefix|find(?:s|ing)?|search|grep|counts?|"
    r"reports?|detect(?:s|ed|ing)?|rejects?|forbid|disallow|highlights?|pars(?:e|es|ing|er)|recogni[sz]es?|called|named|labell?ed|keyword|"
    r"comments? (?:like|with|that)|words?|marker|patterns?|scan(?:s|ner)?|ignor(?:e|es|ing)|becomes?|gives?|returns?|prints?|shows?|"
    r"no|none|without|removed?|resolved?|replaced?|instead of|column|state|status|either|one of|regex|lint|linter|rule)\b",
    _I,
)
