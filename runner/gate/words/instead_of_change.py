"""What an answer gives instead of a change that was ordered, in seven languages: a question back, advice, or a claim.

Every pattern is for one sentence whose inline code and quotations are blanked, of an answer beside which nothing at
all was changed; `orders` says whether a change was ordered. A choice between two ways is a question worth asking.
"""

from __future__ import annotations

import re

_DOES = (
    r"(?:appl(?:y|ied)|add|change|replace|update|set|move|create|remove|delete|edit|modify|rename|adjust|put|wrap|install|insert|enable|disable|convert|switch|increase|decrease|"
    r"translate|fix|extend|split|extract|rewrite|make|do|implement|go|refactor|migrate|merge|configure|write|drop|correct|start|proceed|run|open)"
)
# Leave is asked for work that was ordered already.
LEAVE = re.compile(
    r"\b(?:should|shall|may|can) (?:i|we)\b[^.;!?]{0,200}\?|\b(?:do|would|did) you (?:really |actually |still )*(?:want|like|prefer|wish) (?:me|us) to\b|\b(?:are you (?:really |quite )?sure|is (?:it|that|this) (?:ok|okay|alright|fine|all right))\b[^.;!]{0,160}\?"
    rf"|\bplease (?:confirm|approve)\b|\b(?:let me know|tell me|say the word|just say|confirm|give me the go)\b[^.;!?]{{0,60}}\b(?:i(?:'ll| will| can| should| may)|me to|us to|before i|want (?:it|this|that))\b|\b(?:once|when|after|as soon as) you(?:'ve| have)? (?:confirm|approve|agree|give|say)\w*\b|\bif you (?:want|like|agree|wish|prefer|confirm)[^.;!?]{{0,60}}\bi(?:'ll| will| can| could)\b|\bi(?:'d be happy to| can| could) {_DOES}\b[^.;!?]{{0,80}}\b(?:for you|if|once|when)\b"
    r"|(?:し|え|き|い|っ|て|変え|進め|消し)(?:て|って)?(?:も)?(?:よろしい|いい|良い|よい|構わない|かまわない)(?:です|でしょう)か|(?:ましょう|いたしましょう|ます|しよう)か[。?？]?\W*$|(?:ご確認|ご承認|ご了承|ご指示)(?:を|いただ|ください|の上|後|次第)"
    r"|(?:是否|要不要|需要我|要我|可以让我|我可以|能否让我)[^。]{0,60}[?？]|(?:请|麻烦)(?:您|你)?(?:先)?(?:确认|批准|回复)|(?:确认|同意|批准)(?:之?后|了)[^。]{0,8}我"
    r"|(?:할까요|드릴까요|될까요|볼까요|괜찮(?:을까요|으신가요|습니까)|꿀까요|울까요|칠까요|길까요|원하시나요|원하십니까)|(?:확인|승인)(?:해|하여|을|를)? ?(?:주세요|주시면|주십시오|부탁|바랍)"
    r"|[¿]\s*(?:quieres|quiere|deseas|desea|te parece|le parece|debo|puedo|seguro|confirmas|procedo|lo|la|los|las)\b[^?]{0,160}\?|\b(?:confírma\w*|por favor,? confirm\w*|dime si|avísame si|si (?:me )?confirmas|cuando (?:me )?confirmes|si quieres,? (?:lo|la|puedo|te))\b"
    r"|\b(?:soll|darf|kann|sollen|dürfen) (?:ich|wir)\b[^.;!]{0,200}\?|\b(?:möchtest du|möchten sie|willst du|wollen sie|bist du sicher|sind sie sicher)\b[^.;!]{0,200}\?|\b(?:bitte (?:kurz )?(?:um )?bestätig\w*|bestätige bitte|gib (?:mir )?(?:kurz )?bescheid|geben sie (?:mir )?(?:kurz )?bescheid|sag(?:en sie)? (?:mir )?(?:einfach |kurz )?bescheid|wenn (?:du|sie) (?:möchtest|möchten|willst|wollen|zustimm\w*|einverstanden)[^.;!?]{0,40}\bich)\b"
    r"|\b(?:dois-je|puis-je|voulez-vous|veux-tu|souhaitez-vous|souhaites-tu|faut-il que je|est-ce que je (?:dois|peux)|êtes-vous sûr|es-tu sûr)\b[^.;!]{0,200}\?|\b(?:merci de|veuillez|peux-tu|pouvez-vous|il me faut) (?:me )?(?:confirmer|valider)|\b(?:dites|dis)-moi si\b|\bconfirmez?\b[^.;!?]{0,40}\bje\b|\bsi (?:vous (?:voulez|souhaitez)|tu (?:veux|souhaites)),? je\b",
    re.IGNORECASE,
)
# "One or the other?" is a question about what was left open; "or not?" is none.
CHOICE = re.compile(
    r"\bor\b(?! (?:not|leave|keep|is)\b)|\boder\b(?! (?:nicht|lieber nicht|so lassen))|\bou\b(?! (?:non|pas)\b)|\bo\b(?! (?:no)\b)|それとも|または|还是|或者|아니면|또는|\b(?:which|what|welche\w*|was|cuál|qué|quel\w*)\b|どちら|哪|어느|어떤",
    re.IGNORECASE,
)
_IMPERATIVE = r"(?:change|replace|add|create|edit|open|remove|delete|rename|set|move|update|put|insert|wrap|switch|modify|adjust|install|enable|disable|copy|convert|translate|run|apply)"
# The work described as somebody's to do.
ADVICE = re.compile(
    rf"\byou(?:'ll| will| would|'d)? (?:now |then |only |just |simply )*(?:should|need to|must|have to|can|could|want to|ought to)(?: then| also| now| simply| just| first)? {_DOES}\b|\b(?:the|a|one|my) (?:\w+ )?(?:fix|solution|remedy|change|correction|way|approach)\b[^.;!?]{{0,40}}\b(?:would be|could be|is) (?:to\b|{_DOES}ing\b)"
    rf"|^\W*to (?:do (?:this|that|so|it)|[a-z]+)\b[^.;!?]{{0,100}},\s*(?:you (?:can|should|need)|(?:simply |just |first |please )*{_IMPERATIVE}\b)|^\W*(?:\d+[.)]\s*)?\W*(?:(?:first|then|next|finally|now|after that|simply|just|please|instead)[,]?\s+)*{_IMPERATIVE} (?:the|an?|all|each|every|your|it|this|that|line|one|\s|in|to)\b|\b(?:should|must|needs? to|has to|ought to|could|can) be (?:changed|replaced|added|updated|moved|removed|renamed|set|adjusted|wrapped|closed|rewritten|converted|translated|fixed)\b|\bi(?:'d| would) (?:suggest|recommend|propose)\b|\b(?:good luck|viel erfolg|buena suerte|bonne chance)\b|祝(?:您|你)好运|행운을"
    r"|^\W*pour [^.;!?]{1,100},\s*(?:\w+ez|il (?:faut|suffit))\b|^\W*para [^.;!?]{1,100},\s*(?:cambi[ae]|añad[ae]|cre[ae]|modifi\w+|sustituy[ae]|edit[ae]|pon|borr[ae]|elimin[ae]|debes|hay que)\b|^\W*um [^.;!?]{1,100} zu \w+, (?:\w+e|\w+en sie)\b"
    r"|(?:変更|修正|追加|作成|実行|置換|削除|設定|編集|更新|移動|指定|移行)(?:し(?:て(?:ください|下さい|みて)|ていただ)|すれば|すると(?:直|解決|よい|良い|いい)|する(?:必要が|べき)|することで(?:解決|直|対応|修正))|(?:書き換え|置き換え|変え|入れ|移し|加え|直し|作っ)(?:て(?:ください|下さい)|れば(?:よい|良い|いい|直|解決)|る(?:必要が|べき|と(?:よい|良い|いい|直)))"
    r"|(?:您|你)(?:可以|需要|应该|应当|得|必须|只需要?|只要)[^。]{0,40}(?:改|换|加|删|移|建|设|写|迁|装|执行|替|译|拆)|(?:只需要?|只要|应该|应当|建议)(?:您|你)?(?:把|将|在|先)?[^。]{0,40}(?:改|换|加|删|移|建|设为|写|迁|替)|(?:修复|解决|修改)(?:的)?(?:方法|办法|方案|方式)(?:是|如下|为)|请(?:将|把|在|先|手动)[^。]{0,40}(?:改|换|加|删|移|建|设|写|执行)"
    r"|(?:변경|수정|추가|생성|실행|교체|삭제|설정|작성|이동|적용|제거)(?:을|를)?\s?(?:하시면|하면|하셔야|해야|하는 것이|하십시오|하세요|해 ?주세요|해 ?보세요)|(?:바꾸|고치|옮기|지우|넣으|만드)(?:시면|면|셔야|세요|는 것이)|(?:바꿔|고쳐|옮겨|지워|넣어)(?:야| ?주세요)"
    r"|\b(?:debes|deberías|tienes que|hay que|puedes|podrías|debe|debería|tiene que|basta con|bastaría con|habría que|necesitas|hace falta|recomiendo|sugiero)\b[^.;!?]{0,20}\b\w+(?:ar|er|ir)(?:l[oae]s?)?\b|\bla (?:solución|corrección) (?:es|sería|consiste)\b|^\W*(?:\d+[.)]\s*)?(?:primero,? |luego,? |después,? )?(?:cambia|añade|crea|abre|sustituye|reemplaza|edita|pon|ejecuta|borra|elimina|agrega|modifica|mueve|cambie|añada|cree|abra|sustituya|reemplace|edite|ponga|ejecute|elimine|modifique|mueva)\b"
    r"|\b(?:du|sie|ihr) (?:musst|müssen|müsst|solltest|sollten|kannst|können|brauchst|könntest|könnten)\b|\b(?:musst|müssen|solltest|sollten|kannst|können) (?:du|sie)\b|\b(?:muss|müsste|sollte|kann) man\b|\bman (?:muss|müsste|sollte|kann)\b|\b(?:die|eine) (?:lösung|korrektur|behebung|abhilfe) (?:ist|wäre|besteht|lautet)|\bder fix (?:ist|wäre)|^\W*(?:\d+[.)]\s*)?(?:zuerst |dann |danach )?(?:ändere|ändern sie|füge|fügen sie|erstelle|erstellen sie|ersetze|ersetzen sie|öffne|öffnen sie|trage|tragen sie|lege|legen sie|setze|setzen sie|lösche|löschen sie|führe|führen sie|verschiebe|verschieben sie|übersetze|übersetzen sie)\b"
    r"|\b(?:tu dois|vous devez|il faut|il faudrait|il suffit|il suffirait|tu peux|vous pouvez|tu devrais|vous devriez|je (?:te|vous)? ?(?:recommande|suggère|conseille))\b[^.;!?]{0,40}\b\w+(?:er|ir|re)\b|\bla (?:solution|correction) (?:est|serait|consiste)\b|^\W*(?:\d+[.)]\s*)?(?:d['’]abord,? |ensuite,? |puis,? )?(?:change[zr]?|ajoute[zr]?|crée[zr]?|ouvre[zr]?|ouvrez|remplace[zr]?|modifie[zr]?|édite[zr]?|supprime[zr]?|mettez|mets|exécute[zr]?|déplace[zr]?)\b",
    re.IGNORECASE,
)

_DONE = (
    r"(?:implemented|added|created|fixed|updated|completed|finished|refactored|written|wrote|rewrote|rewritten|resolved|built|made|moved|renamed|removed|deleted|replaced|translated|converted|migrated|"
    r"switched|extended|cleaned|merged|split|extracted|adjusted|configured|enabled|disabled|improved|optimi[sz]ed|installed|simplified|applied|corrected|changed|set|ported|restructured|upgraded)"
)
_DONE_JA = r"(?:実装|修正|追加|作成|完了|対応|変更|翻訳|移行|変換|削除|更新|整理|統一|分割|置換|改善|リファクタリング|リネーム|導入|統合|最適化|設定)"
_DONE_ZH = r"(?:完成|实现|修复|添加|修改|翻译|迁移|转换|删除|更新|整理|替换|重构|优化|改写|改造|改成|改为|创建|新增|增加|拆分|合并|升级|移除|重命名|调整|清理)"
_DONE_KO = r"(?:완료|구현|수정|추가|변경|번역|이전|전환|삭제|정리|교체|개선|통합|분리|작성|적용|생성|제거|업데이트|리팩터링|리팩토링)"
_DONE_ES = r"(?:implementad|añadid|agregad|corregid|completad|cambiad|traducid|migrad|movid|renombrad|eliminad|borrad|sustituid|reemplazad|actualizad|convertid|cread|escrit|hech|terminad|refactorizad|arreglad|resuelt|adaptad|ajustad|simplificad|configurad|limpiad|separad|dividid|unificad|finalizad|modificad|ordenad)[oa]s?"
_DONE_DE = r"(?:implementiert|hinzugefügt|behoben|erstellt|korrigiert|übersetzt|umgestellt|umgebaut|geändert|angepasst|verschoben|ersetzt|entfernt|gelöscht|umbenannt|migriert|aktualisiert|ergänzt|umgesetzt|eingebaut|aufgeräumt|vereinfacht|erledigt|fertig|abgeschlossen|umgewandelt|portiert|ausgelagert|konvertiert|eingerichtet|zusammengeführt|überarbeitet|optimiert|refaktoriert|aufgeteilt)"
_DONE_FR = r"(?:implémenté|ajouté|corrigé|terminé|traduit|migré|déplacé|renommé|supprimé|remplacé|modifié|changé|mis à jour|mis en place|converti|créé|écrit|fait|adapté|nettoyé|simplifié|refactorisé|réécrit|réparé|achevé|séparé|fusionné)(?:e|s|es)?"
# A claim that the work is done.
CLAIMS = re.compile(
    r"(?:^|[.!:]\s+)\W*(?:all\s+)?(?:done|completed?|finished|fixed|ready)\s*(?:[.!✅🎉:,]|$)"
    rf"|\b(?:i|we)(?:['’]ve| have)?(?: now| successfully| also| just| fully| already)* {_DONE}\b(?! (?:nothing|no\b|up my))|\b(?:has|have) been(?: now| successfully| fully| all)* {_DONE}\b"
    r"|\b(?:is|are|works?|uses?|has|runs?|shows?|returns?|supports?) now\b|\bnow (?:is|are|works?|uses?|has|runs?|shows?|returns?|supports?|falls back)\b|\b(?:ist|sind|steht|läuft|nutzt|verwendet|zeigt) (?:jetzt|nun)\b|\b(?:est|sont|utilise|affiche) (?:maintenant|désormais)\b|\bahora (?:es|está|están|usa|muestra)\b|(?:ように|に)なりました|이제 [^.]{1,40}니다"
    rf"|{_DONE_JA}(?:を)?(?:すべて|全て)?(?:しました|いたしました|済みです|が?完了|が?終わ)|(?:置き換え|書き換え|直し|切り替え|まとめ|移し|入れ替え|作り|書き|消し)ました|完了です|終わりました"
    rf"|已(?:经)?(?:全部|都|成功|为您|为你)?{_DONE_ZH}|{_DONE_ZH}(?:完成|完毕|好)?了|(?:全部|都|任务|工作)(?:已)?(?:经)?(?:完成|搞定|做完)|{_DONE_ZH}(?:完成|完毕)"
    rf"|{_DONE_KO}(?:을|를|이|가)?\s?(?:모두 |전부 |다 )?(?:했습니다|하였습니다|되었습니다|됐습니다|완료)|(?:바꿨|고쳤|옮겼|마쳤|끝났|끝냈|합쳤|나눴|지웠|줄였|만들었|넣었)습니다"
    rf"|\b(?:he|hemos|se ha|se han|ha sido|han sido|están?|quedan?)(?: \w+mente| ya| ahora| tod[oa]s?)* {_DONE_ES}\b|(?:^|[.!]\s+)\W*(?:listo|hecho|terminado)\b\W*(?:[.:!,]|$)|\b(?:todo|ya) está (?:listo|hecho)|\btarea completada\b"
    rf"|\bich habe\b[^.;!?]{{0,120}}\b{_DONE_DE}\b|\b(?:wurden?|sind|ist)\b(?: \w+){{0,5}} {_DONE_DE}\b|(?:^|[.!]\s+)\W*(?:erledigt|fertig)\b\W*(?:[.:!,]|$)"
    rf"|\b(?:j['’]ai|nous avons|a été|ont été)(?: \w+){{0,2}} {_DONE_FR}\b|\bc['’]est (?:fait|terminé|bon)\b|\b(?:travail|tâche)\b[^.;!?]{{0,20}}\b(?:terminée?|achevée?|finie?)\b",
    re.IGNORECASE | re.MULTILINE,
)
# The sentence speaks of what was there already, or of what was not done.
NO_CLAIM = re.compile(
    r"\b(?:already|not|nothing|never|before|previously|commit|bereits|schon|nicht|nichts|noch|déjà|rien|pas|ya (?:estaba|existe|había)|no|nada)\b|n['’]t\b|すでに|既に|ません|ていない|没有|未|本来|이미|않|못",
    re.IGNORECASE,
)
