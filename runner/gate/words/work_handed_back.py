"""How answers part from work that is not done, in seven languages: rule tables, one row a language.

Five families: the work is announced, put off, handed back, broken off, or done in part. Beside them what a report of
finished work says, and the innocent cousins: ideas beyond the request, deployment, how the code itself proceeds.
Every pattern is for one sentence whose inline code and quotations are blanked; `endings` says where a family counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One language's families; `done` is what a report of finished work says."""

    announced: re.Pattern[str]
    put_off: re.Pattern[str]
    handed_back: re.Pattern[str]
    broken_off: re.Pattern[str]
    in_part: re.Pattern[str]
    done: re.Pattern[str]


def _row(announced: str, put_off: str, handed_back: str, broken_off: str, in_part: str, done: str) -> Row:
    texts = (announced, put_off, handed_back, broken_off, in_part, done)
    return Row(*(re.compile(text, re.IGNORECASE) for text in texts))


_LATER = (
    r"(?:later(?: on)?\b(?! than)|tomorrow|afterwards|separately|soon\b|in due course|next(?! (?:to|time|run|request|release|start|level)\b)"
    r"|(?:in|as|with|for|during) (?:a|an|the|another|my|our|its) (?:\w+ )?(?:(?:next|follow[- ]?up|second|separate|subsequent|future|later|new|further|upcoming|different|own) )?"
    r"(?:step|session|pr|pull request|pass|message|response|reply|answer|turn|phase|ticket|patch|commit|iteration|change(?:set)?|sprint|follow[- ]?up|part)\b)"
)
_DOES = (
    r"(?:implement|write|add|finish|complete|convert|migrat|port|translat|wir|hook|connect|handl|cover|fix|refactor|updat|creat|build|extend|replac|mov|tackl|continu|work on|look|tak|"
    r"address|adapt|adjust|switch|renam|remov|split|document|test|fill|flesh|clean|proceed|turn to|get (?:to|started)|apply|integrat|support|set|start|begin|check|read|review|analy[sz]|examin|"
    r"inspect|explor|investigat|search|find|trac|go|run|mak|put|map|prepar|open|see|identify|determin|draft|introduc|generat|chang|modif|edit|reproduc|profil|measur|walk|do the|have a)\w*"
)
_DONE_EN = (
    r"(?:done|added|implemented|handled|migrated|converted|tackled|addressed|covered|written|moved|ported|translated|finished|completed|updated|replaced|switched|wired|hooked|connected|cleaned|"
    r"refactored|built|dealt with|made|fixed|tested|documented|filled|integrated|created|adapted|adjusted|extended)"
)
_TO_WRITE = (
    r"(?:implement|write|wire|hook|connect|plug|fill|complete|finish|code|flesh|port|convert|translate|handle|build|develop|refactor|integrate|adapt|extend|do (?:the|this|it)|repeat|fix|"
    r"(?:create|add|migrate|update|replace|move|switch|adjust|cover) (?:the|these|those|all|each|your own|any)\b)"
)
_COUNT_EN = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d+)"
_REST_EN = rf"(?:rest|remainder|others|other half|remaining (?:\w+ ?){{1,3}}|(?:the|all) (?:other|last|second|final) (?:\w+ )?(?:{_COUNT_EN}|half|part|pages?|files?|services?|modules?|endpoints?|screens?|views?|components?|classes|functions|methods|handlers?|tables?|languages?)(?: \w+)?)"

# After "what is left for you to do": steps of deployment, which only the person can take.
_OPERATE = (
    r"[^.;!?]{0,40}?\b(?:re-?start|run|re-?run|set|rotate|deploy|install|configure|export|reload|log in|sign|merge|push|pull|enable|before|provide|enter|review|decide|approve|"
    r"reiniciar|ejecutar|desplegar|instalar|configurar|lanzar|antes|neu|neustarten|starten|ausrollen|installieren|ausführen|setzen|vor|eintragen|"
    r"(?:re)?lancer|redémarrer|exécuter|déployer|installer|configurer|définir|avant)\b"
)
_ENGLISH = _row(
    rf"\b(?:i(?:'ll| will|'m (?:now )?going to| am (?:now )?going to|'m about to| am about to| need to| have to| want to)|we(?:'ll| will|'re going to| are going to)|let me|let's|(?<!are )(?<!is )going to)(?! (?:not|be|know|leave)\b) (?:\w+ ){{0,4}}?{_DOES}\b"
    rf"|\bi(?:'m| am) (?:now |currently |still )?(?:going through|working (?:on|through|my)|looking (?:at|into)|reading|checking|starting|updating|converting|adding|writing|implementing|moving on|migrating)\b|^\W*(?:now |next |so )*(?:starting|moving on|working|on|turning) (?:with|on|to|through) (?:the|this|it|\w+ing)\b|^\W*(?:next up|up next|coming up)\b",
    rf"\b(?:i|we)(?:'ll| will|'m going to| am going to| plan to| intend to| want to)\b[^.;!?]{{0,100}}\b{_LATER}"
    rf"|\b(?:will|should|must|can|needs? to|has to|have to|(?:is|are|be) (?:to|planned|scheduled))\b[^.;!?]{{0,30}}?\b(?:follow|come|happen|be {_DONE_EN}|land)\b(?! by\b)[^.;!?]{{0,40}}?{_LATER}(?! by\b)"
    rf"|\b(?:tests?|more|{_REST_EN})\b[^.;!?]{{0,40}}\b(?:(?:is|are) to follow|to follow\W*$|will follow|follows?\W*$|comes? next|is next|are next|to come\W*$)"
    rf"|\b{_REST_EN}\b[^.;!?]{{0,40}}?\b(?:still (?:needs?|uses?|has to|have to|lacks?|requires?|awaits?|waits?|to be {_DONE_EN}|to do|missing|pending|open|outstanding|on the (?:old|previous))|(?:is|are) (?:still|yet) (?:on the|to be|missing|pending|open|outstanding|unfinished|in the old|using the old)|needs? (?:to be {_DONE_EN}|the same|a similar|converting|migrating|porting|translating|more work)|(?:have|has) yet to|remains? (?:to be|undone|open|unfinished)|(?:is|are|has|have)(?:n't| not) (?:yet )?(?:been )?{_DONE_EN}(?: yet\b|\W*$))"
    rf"|\b(?:is|are|'s) still (?:missing|outstanding|to come|to be {_DONE_EN}|undone|to do|unfinished|left to do)\b|\b(?:points?|tasks?|items?|parts?|work|steps?|things?|pieces?)\b[^.;!?]{{0,30}}\b(?:(?:is|are) (?:still )?(?:left|open|pending|outstanding)|remains?\W*$|still to (?:do|come|be done)|remains? (?:open|to be done|undone))"
    rf"|\bremains? to be {_DONE_EN}\b|\b(?:i|we) still (?:need|have) to\b|(?:^\W*|\b(?:all|so|and|but) )(?:that(?:'s| is)|what(?:'s| is)) (?:still )?(?:left|missing)(?: (?:to do|now))? (?:is|are)\b|^\W*what (?:still )?remains (?:is|are)\b"
    rf"|\b(?:haven't|have not|hasn't|has not|didn't|did not|not)(?: yet)? (?:been )?(?:touched|started|begun|got(?:ten)? to|reached|wired up|{_DONE_EN})\b[^.;!?]{{0,60}}\b(?:yet|so far)\b|\b(?:haven't|have not|hasn't|has not) yet (?:been )?(?:touched|started|begun|got(?:ten)? to|reached|{_DONE_EN})\b"
    rf"|\b{_REST_EN}\b[^.;!?]{{0,40}}?\b(?:can|could|should|may) (?:then |now |all )?be {_DONE_EN} (?:similarly|likewise|analogously|accordingly|following|by following|with|using|in|along|the)\b[^.;!?]{{0,20}}?\b(?:same|similar|this|that|pattern|approach|way|lines|similarly|likewise|analogously|accordingly)?"
    r"|^(?!.*\b(?:which|what|that|whose|where)\b).*\b(?:comes?|is|are) (?:up )?next\W*$|^\W*[a-z]+ing\b[^.;!?]{0,60}\b(?:is|are) (?:still )?(?:open|left|missing|pending|outstanding)\W*$"
    r"|\b(?:follows?|comes?|lands?)\b[^.;!?]{0,20}\b(?:in|with|as) (?:a|an|another|the next|my next|its own|their own) (?:\w+ )?(?:pr|pull request|session|follow[- ]?up|ticket|message|answer|response|commit|iteration)\b"
    r"|\b(?:i|we)(?:'ve| have)? (?:postponed|deferred|put off|parked|saved? for later|left for later|left for (?:another|a (?:later|follow|separate|future|second)))\b|\b(?:is|are|was|were|been|i|we|i've|we've) (?:left|kept|saved|reserved|planned|scheduled|queued)(?: (?:it|this|that|them|\w+ \w+))? for (?:later\b|(?:a |the |another )?(?:next|later|follow[- ]?up|separate|future|second) (?:pr|pull request|session|step|change|commit|iteration|pass|phase|sprint)\b)"
    r"|\b(?:next|later|after that|afterwards|from there) i(?:'ll| will| would| can)\b|\b(?:is|are|comes?|that's) (?:the )?next (?:thing|step|item|on (?:the|my) list)(?: to \w+)?(?:,|\W*$)",
    rf"\byou(?:'ll| will|'d| would)? (?:still |now |just |only |also |then )*(?:need to|have to|must|should|want to|ought to)(?: still| now| then| just| only| simply| also)? {_TO_WRITE}\b"
    rf"|\b{_TO_WRITE}\b[^.;!?]{{0,80}}\b(?:yourself|yourselves|on your own|on your (?:end|side))\b"
    r"|\b(?:leave|leaves|leaving|left)\b(?! (?:the )?(?:decision|choice|merg|deploy|releas|publish|review|untouched|alone))[^.;!?]{0,120}?\b(?:(?:up )?to you\b(?!r)|for you(?: to\b|\W*$)|in your hands|as an exercise|to the (?:user|reader|developer|team)\b)"
    rf"|\b(?:it is|it's|is|are|that's) (?:then |now |all )?(?:up to you to|your (?:job|task|part|turn)|yours to|for you to|left to (?:you|do)) ?(?!decide|choose|whether|say|judge|merge|review)|\b(?:shall|should|may|can) i (?:now |then )?(?:move on|carry on|press on|keep going|resume|get on|do the (?:rest|same|others?|remaining))\b|\b(?:want|like) me to (?:now |then )?(?:move on|carry on|press on|resume|get on|tackle the (?:rest|others?|remaining|next))\b|\bready to (?:move on|continue|carry on) (?:to|with)\b|\bover to you\b|\byou can take (?:it|over) from here\b|\byou (?:can|could) (?:now |then )*(?:do|handle|convert|migrate|port|translate|finish|implement|complete) the (?:rest|others?|remaining)\b"
    r"|^(?![\s]*[-*•]|\s*\d+[.)])\W*(?:(?:now|then|next|finally|simply|just|please|you can|you should) )*(?:repeat|apply|do|follow|use|copy) (?:this|the same|that|it)\b[^.;!?]{0,50}\b(?:other|remaining|rest|others)\b"
    rf"|\b{_REST_EN}\b[^.;!?]{{0,80}}\b(?:you (?:can|could|should|may|just|only|need to|will|have to|only need to|just need to)|just|simply|then) (?:now |then |just |simply |easily )*(?:copy|adapt|adjust|change|repeat|duplicate|convert|migrate|port|translate|do (?:it|them|these|those|the same)|apply the same|follow the same|handle)\b"
    rf"|\b(?:what|all|everything|the only thing) (?:that )?(?:is left for you|you(?:'ll| will)? (?:still |now )*(?:need|have|want) to (?:do|change|add|finish|update))\b(?! not)(?!{_OPERATE})"
    r"|^(?![\s]*[-*•]|\s*\d+[.)])\W*please (?:implement|fill in|complete|finish|flesh out|write|wire|convert|migrate the)\b",
    r"\b(?:i|we)(?:'ll| will| have to| had to|'m going to| am|'m)? (?:stop(?:ped|ping)?|paus(?:e|ed|ing)|end(?:ed|ing)?|break(?:ing)? off|broke off|cut(?:ting)? (?:it|this) off|leave it)\b[^.;!?]{0,20}\b(?:here|there|at this point|for now|for today)\b"
    r"|\b(?:due to|because of|owing to|given|for lack of|for want of|in the interest of|for reasons of) (?:the |a )?(?:lack of )?(?:limited |remaining )?(?:length|time|space|tokens?|context|output|message|response)\b(?: (?:limits?|constraints?|limitations?|budget|window|length|available|i had))?\W*(?:,|$|\bi\b|\bwe\b|\bonly\b)|\b(?:no|not enough|didn't have (?:the |enough )?|hadn't) (?:more )?(?:time|room|space|tokens|context)(?: left| remaining)? (?:to|for the (?:rest|others?|remaining))\b|\b(?:this|the) (?:answer|response|message|session) (?:is |would be |gets? |became )?(?:getting )?too long\b",
    rf"^\W*(?:i|we)(?:'ve| have)? (?:did|done|made|implemented|converted|migrated|translated|handled|wrote|written|ported|updated|covered) [^.;!?]{{1,60}}\bas (?:an? (?:first )?)?(?:examples?|samples?|pattern|model|template|starting point|proof of concept)\b(?! (?:of|for|in|with|data|file)\b)"
    rf"|\b(?:i|we)(?:'ve| have)\b(?! (?:not|no)\b)[^.;!?]{{0,90}}\bso far\b|\bso far,? (?:i|we|only)\b|\bonly\b[^.;!?]{{0,50}}\bso far\b|\bfor (?:the moment|the time being),? (?:only|i(?:'ve| have)?|just)\b"
    rf"|\b(?:i|we)(?:'ve| have) (?:now |only |just )*(?:started (?:on|with|to|work|working|\w+ing)|begun|made a start|laid (?:the |out the )?(?:groundwork|foundations?)|made (?:good |some )?progress|got(?:ten)? as far as|got(?:ten)? half)\b"
    r"|^(?=.*\b(?:at the moment|for now|currently|still|temporarily|at present|as yet|until)\b).*\b(?:hard-?coded|mock(?:ed)?|dummy|fake|placeholder|stubbed|canned) (?:\w+ )?(?:data|values?|responses?|results?|rows|records|orders|users|lists?|numbers?)\b"
    rf"|\b(?:half|parts?|a (?:first|small|large|good) part|most|some|a third|the first (?:half|part|{_COUNT_EN})) of (?:the|it|them|this|your|these|those)\b(?:(?!\b(?:before|until|while|when|that|which)\b)[^.;!?|]){{0,50}}\b(?:is|are|has been|have been)(?: now| already)? (?:{_DONE_EN}|complete|in place|ready)\b(?! (?:by|in|as|before))"
    rf"|(?<!never )(?<!not )(?<!no )\b(?:partially|partly|half)[- ](?:implemented|done|finished|completed?|migrated|converted|ported|translated|working|ready)\b",
    r"\b(?:i|we)(?:'ve| have)?(?: now| also| just| already| then| only)* (?:[a-z]{3,}ed|wrote|written|made|did|done|built|put|split|set|took|gave|found|rewrote|kept|cut|ran|brought|sent|left)\b|\b(?:has|have) been\b|\bnow\b(?! (?:i|let|going|we)\b)|\b(?:is|are) (?:done|in place|complete|fixed|there|ready)\b"
    r"|^\W*(?:done|all set|[a-z]{3,}ed|wrote|rewrote|made|built|split|set)\b|\bpass(?:es|ed)?\b",
)

_WORK_JA = r"(?:実装|追加|作成|修正|対応|改修|移行|変更|着手|調査|確認|分析|検討|整理|整備|変換|翻訳|導入|書き換え|書き直し|リファクタ\w*|テスト|開発|設計|構築|見直し?|取り(?:掛|か)か[りる]|取り組み|進め|始め|直し|調べ|見|行い|書き?|追記|用意|拡張|置き換え|組み込み)"
_WILL_JA = r"(?:(?:を|も|に|から|まで)?(?:し|いたし|させていただき|やり|行い|おこない|かか[りる]|掛か[りる])?(?:て)?(?:いき|まいり|みま|いただき)?(?:ます|ましょう)|(?:する|して|していく|進める|行う|着手する)?(?:つもり|予定|計画|こと(?:に|と))(?:です|になります|としま|にしま|でいます)|(?:し|進め|行い)?たいと(?:思い|考え)ます|(?:します|いきます)ね)"
_PROGRAM_JA = r"(?:処理|関数|メソッド|クラス|スクリプト|コマンド|サーバー?|システム|ジョブ|ツール|プログラム|モジュール|ボタン|フック|ワーカー|バッチ|クライアント|\))(?:は|が|では)(?!、?(?:これから|今から|次|後))"
_JAPANESE = _row(
    rf"^(?!.*{_PROGRAM_JA})(?!.*(?:これにより|この変更で|ように(?:し|な))).*(?:これから|今から|まず|最初に|はじめに|次に|続いて|その後|それから|そのあと|早速|さっそく|順番に|順次|では|ただいま|引き続き|一つずつ)[^。]{{0,90}}{_WORK_JA}(?!でき|され|られ)[^。でさら]{{0,4}}?{_WILL_JA}\W*$"
    rf"|^(?!.*{_PROGRAM_JA}).*(?:{_WORK_JA})[^。]{{0,8}}(?:ていきます|てまいります|に(?:取り(?:掛|か)かり|着手し|入り)ます|を(?:進め|始め|開始し)ます|したいと思います|しようと思います)(?:ね)?\W*$",
    rf"(?:次(?:回(?!の(?:実行|起動|更新|リクエスト|ログイン|同期|読み|アクセス|配信))|の(?:ステップ|段階|フェーズ|セッション|作業|メッセージ|回答|返信|コミット|PR|プルリク|タスク|ターン|スプリント|イテレーション))|後(?:日|ほど|続(?:の|で))|のちほど|あとで|別(?:途|の(?:PR|セッション|タスク|作業|コミット|プルリク|チケット))|今後|追って|追々|改めて|引き続き|明日|続けて)[^。]{{0,50}}?{_WORK_JA}(?!でき|され|られ|して?あ)[^。でさら]{{0,4}}?{_WILL_JA}"
    rf"|(?:次(?:回|の(?:ステップ|段階|フェーズ|セッション|作業|PR))|後日|後続(?:の)?(?:作業|PR|タスク)|別(?:途|の(?:PR|タスク)))[^。]{{0,20}}(?:回し(?:ます|ました|て)|持ち越|譲り|とします|とさせて|の対応(?:と|に)な|になります)"
    rf"|残(?:り|る|った)[^。]{{0,40}}{_WORK_JA}(?!済|しました|でき|され|した)[^。]{{0,6}}?(?:ます(?!た)|予定|必要|未|ていません|ておりません|です)|(?:まだ|未)[^。]{{0,30}}(?:残って(?:い|お)|着手|終わって|でき(?:て|ていま)|完了して|手を付け|間に合)|(?:作業|タスク|課題|部分|実装|対応|箇所|工程)[^。]{{0,12}}(?:が|は|も)(?:まだ)?(?:残って(?:い|お)|残りま|未(?:着手|対応|完了|完成)です|これから(?:です|とな)|手(?:つかず|付かず))"
    r"|(?:未(?:着手|完了|完成|対応)|これから(?:です|の作業です|着手)|手つかず)(?:です|のまま|となって|の状態)",
    r"(?:ご自身|ご自分|各自|お客様|ユーザー様|そちら|貴社|御社|あなた)[^。]{0,50}(?:実装|追加|補完|作成|修正|対応|記述|変更|書|埋め|完成|仕上げ|移行|調整)[^。]{0,10}(?:ください|下さい|お願い|いただ|必要|もらえ)|(?:中身|ロジック|本体|内部の処理|残り|詳細な処理|実際の処理|具体的な(?:処理|実装))[^。]{0,40}(?:実装|追加|補完|記述|埋め|書|作成|移行|置き換え)[^。]{0,8}(?:してください|て下さい|てください|お願い|いただ[くけき])"
    r"|(?:残り|続き|その他|実装|あと)[^。]{0,16}(?:お任せ|任せ)し?ます|(?:進め|続け|着手し|取り(?:かか|掛か)っ?)[^。]{0,10}(?:よろしい|いいです|良いです|ますか|ましょうか)|(?:残り|他|ほか|その他|それ以外)[^。]{0,40}(?:同(?:じ|様)|コピー|複製)[^。]{0,40}(?:ください|下さい|できます|すれば|れば(?:よい|良い|いい|できます))|(?:ご自身|あなた|そちら|お客様)(?:で|に|が)?(?:行って|していただ|やって|する(?:必要|こと))|同(?:じ|様の)(?:手順|要領|方法|やり方|パターン|形)で[^。]{0,30}(?:残り|他|その他)?[^。]{0,20}(?:してください|て下さい|お願い)",
    r"(?:長くなる|長くなった|長い|長文になる|文字数|出力(?:の)?(?:長さ|上限|制限)|トークン|回答(?:の)?長さ|時間(?:の)?(?:都合|関係|制約|不足)?)[^。]{0,14}(?:ため|ので|の(?:都合|関係)(?:で|上|により)|により|から)[^。]{0,40}(?:ここまで|まで(?:と|に)|一部|のみ|だけ|区切|分割|残り|省略|割愛|途中|中断)|(?:今回|本日|今日|ひとまず|いったん|一旦|とりあえず|取り急ぎ)[^。]{0,10}ここまで|ここ(?:まで|で)(?:と(?:し|なり|させ)|にし|一旦|いったん|区切|中断|終わ)|続き(?:は|を|が)[^。]{0,20}(?:次|後|必要|お|ください|ます)|続け[^。]{0,20}(?:お送り|入力|お伝え|ご指示|おっしゃ|教え|言って)",
    r"(?:現時点|今のところ|ひとまず|まずは|取り急ぎ|とりあえず|いまは|今は)[^。]{0,60}(?:のみ|だけ|まで|一部)(?!で(?:なく|は))[^。]{0,16}(?:です|ました|ています|完了|実装|対応)|(?:のうち|中)(?:の)?(?:最初の)?[^。テ]{0,8}(?:[0-9０-９一二三四五六七八九]+)(?:つ|個|件|ファイル|画面|ページ|本|箇所|種)[^。]{0,24}(?:完了|終|対応し|変換し|実装し|移行し|翻訳し|済)|(?:半分|一部|途中)(?:まで|だけ|のみ)[^。]{0,16}(?:完了|終|対応|実装|移行|変換|作|進|です)|(?:現在|今|いまのところ|いったん|一旦|とりあえず|まだ)[^。]{0,30}(?:仮|ダミー|モック|固定)(?:の)?(?:データ|値|レスポンス)|(?:骨組み|雛形|ひな形|土台|枠組み)(?:だけ|のみ|まで)",
    r"(?<!承知し)(?<!了解し)(?<!かしこまり)(?<!理解し)(?<!把握し)ました(?!ら)|済み|完了|になって(?:い|お)|なります|通って",
)

_WORK_ZH = r"(?:实现|改造|处理|补充|完成|添加|新增|增加|迁移|转换|编写|修改|翻译|开发|重构|优化|调整|改写|接入|更新|替换|修复|对接|完善|支持|创建|搭建|测试|推进|改完|写完|做完|补上|加上|做)"
_LOOK_ZH = r"(?:分析|查看|检查|阅读|了解|梳理|研究|排查|看一?下|看看|开始|着手|先|定位|确认|读取|探索|熟悉)"
_PROGRAM_ZH = (
    r"(?:程序|函数|方法|脚本|系统|代码|服务器?|客户端|接口|该|它|任务|线程|进程|请求|用户)(?:会|将|就|先|再|首先|接着)"
)
_CHINESE = _row(
    rf"(?:我(?:来|这就|现在|马上|先|接下来|将|会|要|打算|计划|准备|需要)|我们(?:先|来|将|接下来)|让我(?:们)?|帮[你您])[^。!！]{{0,30}}?(?:{_WORK_ZH}|{_LOOK_ZH})(?!了|过|好了|完了|完毕)|^(?!.*{_PROGRAM_ZH})(?:[^。]{{0,6}}[,，!！]\s*)?(?:首先|接下来|下面|现在|然后|马上|稍后|接着|下一步)(?:[,，])?[^。了]{{0,20}}?(?:{_WORK_ZH}|{_LOOK_ZH})[^了]*$",
    rf"(?:我(?:们)?(?:会|将|再|来|就|打算|计划|准备)?(?:在)?|留(?:到|待|在|给)|放(?:到|在)|等(?:到)?|待|推迟到?|安排在|计划(?:在)?)(?:后面|之后)?(?:的)?(?:下一?步|下一?次|下一轮|下个?(?:步骤|阶段|会话|回合|迭代|提交|版本|PR)|后续|稍后|之后|以后|接下来|随后|改天|明天|另(?:一|外|开)?(?:个)?(?:PR|会话|提交|任务))"
    rf"|(?:下一?步|下一?次|下一轮|下个?(?:步骤|阶段|会话|回合|迭代|提交|PR)|后续|稍后|之后|接下来|随后|改天|明天|另(?:一|外|开)?(?:个)?(?:PR|会话|提交))[^。]{{0,10}}?我(?:们)?(?:会|将|再|继续|来|打算|计划|准备|就)?[^。]{{0,16}}{_WORK_ZH}"
    rf"|(?:下一步|下次|后续|接下来|之后|剩下的|剩余的?|其余的?)[^。]{{0,24}}?(?:再|继续)(?!请求|发送|传输|执行)[^。]{{0,6}}{_WORK_ZH}"
    rf"|(?:还|仍|尚)(?:需要?|要|得|待|须|差)[^。]{{0,10}}{_WORK_ZH}|(?:还|仍|尚)(?:剩(?:下|余)?|有|差)[^。]{{0,24}}(?:没(?:有)?|未|待|需要?|要|等着)[^。]{{0,6}}{_WORK_ZH}|(?:剩(?:下|余)的?|其余的?|其他的?|另外)[^。]{{0,20}}(?:还没|还未|尚未|仍未|暂未|还没有|待|仍需|需要|有待)[^。]{{0,6}}{_WORK_ZH}|(?:还|尚|仍|暂)(?:没(?:有)?|未)(?:来得及|开始|动|{_WORK_ZH})|没(?:有)?来得及",
    rf"(?:由|请|需要?|要|得)(?:您|你)[^。]{{0,20}}(?:实现|补充|完成|编写|填充|完善|填写|开发|接入|对接|改造)|(?:您|你)(?:还)?(?:需要|得|必须|要|可以)(?:再|自己|自行|手动|继续|按照?|照)?[^。]{{0,16}}(?:实现|补充|编写|填充|完善|改造剩|把(?:剩|其)|处理剩|处理其)|(?:具体|实际|真正|核心)(?:的)?(?:业务)?(?:逻辑|实现|代码|内容|处理)[^。]{{0,12}}(?:请|需|由(?:您|你)|自行|自己|您|你)|(?:剩(?:下|余)的?|其余的?|其他的?|另外)[^。]{{0,40}}(?:同样|一样|相同|类似|照(?:着|此)|复制)[^。]{{0,30}}(?:您|你|即可|就行|就可以|可以)|(?:您|你)(?:还|仍)(?:需要?|要|得|须)(?:做|完成|处理)|请(?:自行|您自己|你自己|按(?:照)?(?:同样|相同|此|上述|类似)|参照|仿照)[^。]{{0,20}}(?:{_WORK_ZH}|处理)|(?:需要|要不要|是否(?:需要)?|要)我[^。]{{0,20}}(?:继续|接着|其余|剩|下一)|(?:交给|留给|就看|靠)(?:您|你)(?!决定)|(?:同样|相同|类似)的(?:方式|方法|办法|步骤)[^。]{{0,10}}(?:处理|修改|改造|完成)(?:其余|其他|剩)",
    r"(?:由于|因为|因|鉴于|受|受限于|限于|考虑到|碍于)[^。]{0,6}(?:篇幅|长度|时间|字数|输出|上下文|token)[^。]{0,8}(?:有限|限制|所限|原因|关系|太长|较长|过长|不够|不足)?[^。]{0,40}(?:只|先|仅|暂|部分|这里|到此|为止|其余|剩|无法|没)|(?:先|就|暂时|今天)(?:先)?(?:写|做|改|实现|完成|处理|到|说)(?:到)?(?:这里|这儿|此|这一步|这些|一部分)|(?:回复|发送|输入|说)[^。]{0,8}(?:继续|接着)",
    rf"(?:目前|现在|暂时|到目前为止|当前|这次|至今|迄今)[^。]{{0,12}}(?:只|仅|才)[^。]{{0,8}}(?:{_WORK_ZH})|(?:完成|实现|处理|改|迁移|翻译|写|做)(?:好|完)?了[^。]{{0,10}}(?:一部分|部分|一半|前[两二三四五六七八九\d]+[个步页]|大半|大部分|其中的?[一两二三四五六七八九\d]+[个页])|[一两二三四五六七八九十\d]+(?:个|页|处|份)[^。]{{0,8}}(?:中|里)的(?:前)?[一两二三四五六七八九十\d]+(?:个|页|处|份)|(?:目前|暂时|现在|当前|先)[^。]{{0,20}}(?:写死|模拟数据|假数据|mock ?数据|占位)|(?:开了个头|搭(?:好|建)?了?(?:个)?(?:框架|骨架|架子)[^。]{{0,4}}$)",
    r"了(?!解)|已(?:经)?|完毕|通过",
)

_WORK_KO = r"(?:추가|구현|작성|수정|진행|적용|처리|변경|작업|변환|번역|마이그레이션|이전|개발|완성|보완|리팩터링|리팩토링|전환|연동|테스트|정리|마무리|개선|교체|만들|옮기|고치|다루|이어가|이어서)"
_WILL_KO = r"(?:(?:을|를|도|까지)?\s?(?:하|해 ?드리|해보|해 ?나가|시작하|드리|들어가)?(?:겠습니다|ㄹ게요)|(?:을|를)?\s?(?:할게요|할 (?:예정|계획|생각)|하려고|예정입니다|계획입니다|할 것입니다|할 거예요|합니다\W*$))"
_KOREAN = _row(
    rf"(?:{_WORK_KO}|확인|분석|살펴|검토|시작|파악|조사|읽어|찾아|설계)[^.!?]{{0,12}}(?:겠습니다|할게요|볼게요|드릴게요|할 예정입니다)\W*$",
    rf"(?:다음(?:에|번에|으로| ?(?:단계|세션|작업|메시지|답변|턴|커밋|PR|회차|스프린트))|이후(?:에)?|추후|나중에|후속|향후|차후|별도(?:로|의)|곧이어|이어서|내일|조만간)[^.]{{0,50}}?{_WORK_KO}[^.]{{0,8}}?(?:겠습니다|할게요|예정|계획|하려고|할 생각|할 것입니다|미루|남겨)"
    rf"|(?:남은|나머지)[^.]{{0,40}}(?:겠습니다|예정|남아 ?있|해야 (?:합|해|할)|필요합|아직|못 ?했)|아직[^.]{{0,40}}(?:못 ?했|못하였|안 ?했|않았|않습|남아|미완|전입니다|못 ?한|진행 ?중)|(?:작업|부분|구현|단계|과제|일)[^.]{{0,8}}(?:이|가|은|는|만)\s?(?:아직 )?남아 ?있|(?:미완료|미구현|진행 중)(?:입니다|인 상태)",
    r"(?:직접|스스로|각자|사용자(?:께서|님)?|본인이|여러분이|고객님)[^.]{0,40}(?:구현|작성|추가|완성|채워|수정|보완|연결|처리|연동|변환|옮겨)[^.]{0,6}(?:하셔|해야|해 ?주|하시|주셔|주세요|넣으|하면|하십|바랍)|(?:나머지|로직|본문|내용|세부|실제|내부)[^.]{0,30}(?:채워|구현해|작성해|추가해|완성해|맡기|처리해|변환해)[^.]{0,6}(?:주세요|주시|야 합|겠습니다|주십|넣으)|(?:진행|이어|넘어)[^.]{0,6}(?:할까요|갈까요|해도 될까요|가도 될까요)|(?:나머지|다른|남은)[^.]{0,40}(?:같은|동일한|똑같|복사)[^.]{0,40}(?:하시면|하면 됩|바꾸시면|바꾸면|주세요|할 수 있습)|(?:직접|아직) 하셔야 할|(?:하셔야|해 주셔야) (?:할|하는) (?:일|작업)|(?:같은|동일한) (?:방식|방법|패턴)으로[^.]{0,30}(?:주세요|하시면|하면 됩|바랍)",
    r"(?:길이|분량|시간|토큰|출력|응답|글자 ?수|지면)[^.]{0,10}(?:제한|부족|관계상|때문|문제|한계|상)[^.]{0,50}(?:까지|나머지|여기|생략|이어|못|만|일부)|여기까지(?:만)?\s?(?:하|진행|작성|구현|입니다|마)|길어(?:지|져)[^.]{0,30}(?:까지|나머지|여기|생략|이어|나누)",
    r"(?:개|건|파일|페이지|화면|가지|곳)\s?중(?:에서?)?\s?(?:먼저 |처음 )?(?:\d+|한|두|세|네|다섯|여섯|일부)\s?(?:개|건|파일|페이지|화면|가지|곳)?(?!.*테스트)[^.]{0,30}(?:완료|처리|변환|마쳤|끝|구현|번역|이전|옮겼)|(?:지금까지|현재(?:까지|는)?|일단|우선은?|이번에는?)[^.]{0,40}(?:만|까지만|일부)\s?(?:우선 |먼저 )?(?:구현|완료|작성|처리|진행|변환|번역|추가)|(?:현재|임시|일단|지금은|아직)[^.]{0,20}(?:하드코딩|더미|목 데이터|가짜|임시 데이터)|(?:절반|반|일부)(?:만|까지|정도)[^.]{0,12}(?:구현|완료|작성|처리|진행|변환|번역)",
    r"(?:했|됐|었|았|였|렸|졌|췄|꿨|겼|쳤|냈)습니다|완료|통과|됩니다|되었",
)

_WORK_ES = r"(?:implementar|completar|escribir|terminar|rellenar|programar|conectar|desarrollar|migrar|traducir|convertir|añadir|agregar|crear|hacer|adaptar|integrar|cubrir|pasar|portar|refactorizar|finalizar|codificar|arreglar|corregir|sustituir|reemplazar|enlazar|resolver|montar|preparar|acabar|modificar|cambiar|probar)(?:l[oae]s?)?"
_NEXT_ES = r"(?:más (?:adelante|tarde)|después|luego|posteriormente|mañana|pronto|en breve|aparte|(?:en|para|con) (?:un|una|el|la|otr[oa]|mi)s? ?(?:próxim[oa]|siguiente|otr[oa]|futur[oa]|segund[oa]|nuev[oa])? ?(?:paso|sesión|fase|iteración|pr|mensaje|respuesta|etapa|commit|entrega|tarea|ticket|vuelta|ronda|parte)\b(?: (?:siguiente|aparte|posterior|separad[oa]))?)"
_FUTURE_ES = r"\b(?!caf|bebe|porqu|qu)[a-záéíóúñ]{2,}(?:ar|er|ir|dr|br|r)é\b"
_COUNT_ES = r"(?:un[oa]?|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|\d+)"
_SPANISH = _row(
    rf"{_FUTURE_ES}|\b(?:voy|vamos) a (?:\w+ )?\w+(?:ar|er|ir)(?:l[oae]s?)?\b|\b(?:me pongo|me pondré|manos a la obra|me dispongo|procedo|empiezo|comienzo|paso) (?:a|con|por)?\b|\bmanos a la obra\b",
    rf"(?:{_FUTURE_ES}|\bvoy a\b|\bse (?:hará|harán|añadirá|añadirán|implementará|implementarán|completará|completarán|migrará|migrarán)|\b(?:vendrá|vendrán|irá|irán|llegará|llegarán)\b)[^.;!?]{{0,80}}{_NEXT_ES}|{_NEXT_ES}[^.;!?]{{0,60}}{_FUTURE_ES}|\b(?:lo |la |los |las )?(?:dejo|dejaré|dejamos|he dejado|queda|quedan)\b[^.;!?]{{0,60}}\bpara (?:más (?:adelante|tarde)|después|luego|otr[oa]|el próximo|la próxima|un[oa]? )"
    rf"|(?<!no )\b(?:falta|faltan|queda|quedan|resta|restan)(?: (?:aún|todavía|solo|sólo|únicamente|ya))?(?: por)? (?!reiniciar|ejecutar|desplegar|lanzar|instalar|configurar|probar en){_WORK_ES}\b|(?<!no )\bme (?:falta|queda|resta)n?\b|(?<!nada )(?<!no )\b(?:queda|quedan|está|están|siguen?|sigue) (?:aún |todavía |como )?pendientes?\b|^\W*(?:pendientes?|por hacer|falta(?:n)?|queda(?:n)? por hacer)\s*:|(?:aún|todavía) (?:no (?:he|hemos|están?|se han?)|faltan?|quedan?)\b(?! errores)|\b(?:los|las) (?:demás|otr[oa]s|restantes)\b[^.;!?]{{0,40}}\b(?:falt\w+|qued\w+|siguen|pendientes?|vendr\w+|irán)\b|\bno (?:he|hemos) (?:llegado a|podido (?:terminar|completar|acabar)|tenido tiempo)",
    rf"\b(?:tendrás|deberás|tienes|debes|puedes|tendrá|deberá|tendría|tendrías|necesitas|necesitarás|necesita|debe|tiene|tendréis|debéis|hará falta que|conviene que|es necesario que)\b(?: ahora| todavía| aún| solo| sólo| tú| usted| ya)*(?: que)? {_WORK_ES}\b(?! (?:la )?(?:clave|contraseña|variable|credencial))|\b(?:l[oa]s )?(?:demás|otr[oa]s|restantes)\b[^.;!?]{{0,80}}\b(?:(?:puedes|puede|podrás|basta con|solo tienes que|sólo tienes que) (?:\w+ )?(?:copiar|repetir|cambiar|adaptar|convertir|traducir|migrar|hacer|seguir|crear|escribir|añadir)\w*|copia|copie)\b|\blo que (?:(?:te|le) (?:queda|falta)|(?:aún |todavía )?(?:tienes|debes|tendrás)(?: que)?(?: aún| todavía)?) (?:que |por )?hacer\b(?!{_OPERATE})|\b(?:te|le|os) (?:toca|corresponde|dejo)\b(?! (?:decidir|un resumen|aquí|el resumen|el enlace))|\b(?:lo|la|los|las|el resto|lo demás)\b[^.;!?]{{0,40}}\b(?:en tus manos|de tu parte|por tu cuenta|a tu cargo|de su parte|por su cuenta|tú mism[oa]|usted mism[oa])|\b(?:corre|queda) (?:de|por|a) (?:tu|su) (?:cuenta|cargo|parte)|[¿]\s*(?:sigo|continúo|paso|prosigo) (?:con|a)\b|\b(?:repite|repita|haz|haga|aplica|aplique|sigue|siga)\b[^.;!?]{{0,40}}\b(?:demás|otr[oa]s|restantes|resto)\b|\b(?:completa|rellena|implementa|escribe|termina|complete|rellene|implemente|escriba|termine) (?:tú|usted|el resto|la lógica|lo que falta|los demás|las demás)",
    r"\b(?:por|debido a|dada|dado|a causa de) (?:la |el |los |las )?(?:falta|limitaciones?|límites?|razones|cuestiones|motivos|longitud|extensión)\b(?: de (?:la )?(?:tiempo|espacio|longitud|extensión|tokens|respuesta|contexto))?[^.;!?]{0,60}\b(?:solo|sólo|parte|aquí|resto|dejo|hasta|demás|no he|no pude|primer)|\bme (?:he )?qued(?:é|ado) sin (?:tiempo|espacio|tokens)|\b(?:lo dejo|me detengo|paro|me paro|corto) (?:aquí|por (?:hoy|ahora))|\bcontinuar[éá] (?:en|con|más|después|luego)",
    rf"\b{_COUNT_ES} de (?:l[oa]s |mis |est[oa]s )?{_COUNT_ES}\b(?!.*(?:prueba|test))|\b(?:por ahora|de momento|hasta ahora|por el momento),? (?:solo|sólo|únicamente|he|hemos|está|están|queda)\b|\b(?:solo|sólo|únicamente)\b[^.;!?]{{0,40}}\b(?:por ahora|de momento|hasta ahora)|\b(?:la mitad|la primera (?:parte|mitad)|una parte|parte) de\b[^.;!?]{{0,30}}\b(?:está|están|he|queda|hech[oa]|list[oa])|\bhe (?:empezado|comenzado|avanzado)\b|^(?=.*\b(?:por ahora|de momento|todavía|actualmente|por el momento|aún)\b).*\bdatos (?:de prueba|ficticios|simulados|falsos|fijos|de ejemplo)\b|\ba medias\b",
    r"\b(?:he|hemos|ha|han) \w+(?:ado|ido|cho|sto|rto|ito)s?\b|\b(?:añadí|agregué|cambié|corregí|creé|moví|eliminé|actualicé|implementé|escribí|hice|puse|arreglé)\b|\blist[oa]\b(?!a)|\bhech[oa]\b|\bahora (?!voy|vamos|\w+ré)\w+|\b(?:está|están) \w+[ai]d[oa]s?\b|\bpasan\b",
)

_WORK_DE = r"(?:implementieren|ergänzen|schreiben|fertigstellen|umsetzen|einbauen|ausfüllen|füllen|ausprogrammieren|programmieren|anbinden|anschließen|übersetzen|portieren|umstellen|umbauen|umwandeln|entwickeln|vervollständigen|übertragen|nachziehen|anpassen|hinzufügen|erstellen|einfügen|verdrahten|verbinden|bauen|behandeln|abdecken|migrieren|nachtragen|erledigen|machen|konvertieren|überarbeiten|auslagern)"
_NEXT_DE = r"(?:später|nachher|demnächst|morgen|danach|anschließend|als nächstes|gesondert|separat|(?:im|in (?:einem|einer|der|meine[rm])|mit (?:meine[rm])|beim|mit dem|mit der|für den|für die|für eine[nr]?) (?:\w+ )?(?:nächsten?|weiteren?|späteren?|separaten?|eigenen?|zweiten?|folgenden?|neuen?|anderen?|künftigen?) (?:\w+ )?(?:schritt|sitzung|pr|pull request|durchgang|nachricht|antwort|phase|iteration|commit|runde|ticket|etappe|teil|änderung|sprint|session))"
_I_DE = r"(?:werde ich|ich werde|will ich|ich will|möchte ich|(?!habe|hatte|denke|glaube|meine|empfehle|rate|würde|hoffe|finde|musste|konnte|wollte|sollte|nehme an)(?:[a-zäöüß]+(?<!t)e|arbeite|starte|bereite|leite|werte|schalte|richte|teste|baue|mache) ich|ich (?!habe|hatte|denke|glaube|meine|empfehle|rate|würde|hoffe|finde|konnte|musste|wollte|sollte|bin|war)(?:[a-zäöüß]+(?<!t)e|arbeite|starte|bereite|leite|werte|schalte|richte|teste)\b)"
_COUNT_DE = r"(?:eine?[nrsm]?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|\d+)"
_GERMAN = _row(
    r"\b(?:ich werde|werde ich|ich fange|fange ich|ich beginne|beginne ich|ich starte|starte ich|ich mache mich|mache ich mich|ich schaue mir|schaue ich mir|ich sehe mir|sehe ich mir|lass(?:en sie)? mich|ich kümmere mich|kümmere ich mich|ich gehe|ich lege los)\b(?! (?:gerne?|nicht)\b)|\b(?:zuerst|zunächst|jetzt|nun|dann|danach|anschließend|als (?:erstes|nächstes)) "
    + _I_DE
    + r"|\b(?:los geht's|ich lege los)\b",
    rf"{_NEXT_DE}[^.;!?]{{0,60}}\b{_I_DE}|\b{_I_DE}[^.;!?]{{0,90}}{_NEXT_DE}|\b(?:folgt|folgen|kommt|kommen)\b[^.;!?]{{0,16}}(?:noch|{_NEXT_DE})|{_NEXT_DE}[^.;!?]{{0,20}}\b(?:folgt|folgen|kommt|kommen|dran)\b|\b(?:rest|übrige\w*|restliche\w*|test\w*|andere\w*|weitere\w*) (?:\w+ )?(?:folgt|folgen)\b|(?<!nichts )\b(?:steht|stehen|fehlt|fehlen)\b[^.;!?]{{0,12}}\b(?:noch|weiterhin)\b|\bnoch (?:aus|offen|ausstehend)\W*(?:$|,|:|und|ist|sind|steh\w+)|\b(?:ist|sind|bleibt|bleiben|wäre|wären)(?: derzeit| jetzt| aktuell| mir| uns)? noch (?:zu \w+en|\w+zu\w+en|nicht (?:umgestellt|umgesetzt|fertig|implementiert|migriert|übersetzt|angepasst|erledigt|angebunden|geschrieben|begonnen|dabei)|ausständig|unerledigt)|\b(?:rest|übrige\w*|restliche\w*|verbleibende\w*|andere\w*) [^.;!?]{{0,40}}\b(?:noch (?:nicht|zu|auf|offen|um)|müssen noch|muss noch|stehen noch|steht noch|fehl(?:t|en))"
    rf"|\bnoch nicht (?:dazu )?(?:gekommen|geschafft|angefangen|begonnen|angefasst)|\b(?:bleibt|bleiben)(?: mir| uns)?(?: nur)?(?: noch)?\b[^.;!?]{{0,50}}\bzu {_WORK_DE}|\b(?:hebe|spare|verschiebe|lasse)\b[^.;!?]{{0,40}}\bfür (?:später|den nächsten|die nächste|ein anderes)|^\W*(?:noch (?:offen|zu tun|ausstehend)|offen(?:e punkte)?|ausstehend|verbleibend)\s*:",
    rf"\b(?:musst|müssen|müsst|solltest|sollten|darfst)(?: sie| du| ihr)\b[^.;!?]{{0,60}}\b{_WORK_DE}\b|\b(?:sie|du|ihr) (?:müssen|musst|müsst|sollten|solltest)\b[^.;!?]{{0,60}}\b{_WORK_DE}\b|\bhabe ich (?:nicht mehr|noch nicht) (?:umgesetzt|implementiert|geschafft|ergänzt|geschrieben)\b|\b(?:ergänz|implementier|schreib|vervollständig|füg|setz|erweiter)\w*\b[^.;!?]{{0,60}}\bselbst\b|\büberlasse ich\b|\bich überlasse\b|\b(?:liegt|liegen|bleibt|bleiben|ist|sind) (?:nun |jetzt |dann |damit )?(?:bei|an) (?:dir|ihnen|euch)\b(?! ob)|\b(?:bleibt|ist|sei) (?:dir|ihnen|euch) überlassen\b(?!,? ob)|\bsoll ich\b[^.;!?]{{0,40}}\b(?:fortfahren|weitermachen|den rest|übernehmen|angehen|loslegen|weitergehen)\b|\b(?:die )?(?:übrigen|anderen|restlichen|weiteren)\b[^.;!?]{{0,80}}\b(?:kannst|können|könnt|musst|müssen|brauchst)\b[^.;!?]{{0,60}}\b(?:kopier\w+|übertragen|umstellen|anpassen|umbauen|übersetzen|konvertieren|migrieren|nachziehen|abändern|ändern|schreiben|genauso|ebenso|selbst)\b|\bwas (?:du|sie|ihr) (?:jetzt |dann )?noch (?:tun|machen|erledigen) (?:musst|müssen|müsst|solltest|sollten)\b(?!{_OPERATE})|\bdeine aufgabe\b|\bihre aufgabe\b|\b(?:wiederhole|wiederholen sie|verfahre|verfahren sie|mach|machen sie)\b[^.;!?]{{0,50}}\b(?:übrig\w*|ander\w+|restlich\w*|rest)\b|\b(?:ergänze|ergänzen sie|implementiere|implementieren sie|fülle|füllen sie|vervollständige|vervollständigen sie) (?:dort |hier |bitte |nun |noch |dann |einfach )*(?:den rest|die (?:eigentliche|restliche|fehlende|übrige)\w*|deine|ihre)\b",
    r"\baus (?:zeit|platz|längen)\w*|\baus gründen der länge\b|\b(?:wegen|aufgrund) (?:der |des |von )?(?:länge|zeit|begrenz|token|zeichen|ausgabe|platz|beschränkt)\w*[^.;!?]{0,60}\b(?:nur|hier|rest|bis|zunächst|teil|nicht)|\b(?:mangels|aus mangel an) (?:zeit|platz)|\b(?:zeit|platz|kontext) (?:reicht|reichte|hat) (?:\w+ )?(?:nicht|nicht gereicht)|\b(?:höre|breche|stoppe|unterbreche|mache) ich (?:hier|an dieser stelle|jetzt) (?:auf|ab|schluss|\w+)?|\bich (?:höre|breche|stoppe) (?:hier|an dieser stelle)|\b(?:bis|so weit|soweit) hierher\b(?: erst)?",
    rf"\b{_COUNT_DE} (?:von|der) (?:den |insgesamt |diesen )?(?:zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|\d+)\b(?!.*\btest)|\bbisher(?: nur| habe ich| ist nur| sind nur| erst)\b|\b(?:vorerst|erst einmal|fürs erste|einstweilen|zunächst)(?: habe ich)?(?: nur| lediglich)\b|\b(?:nur|lediglich)\b[^.;!?]{{0,40}}\b(?:bisher|vorerst|fürs erste)\b|\b(?:die hälfte|einen teil|den ersten teil|ein teil|teile) (?:der|des|von|davon)\b[^.;!?]{{0,40}}\b(?:ist|sind|habe)\b|\bich habe (?:damit )?(?:angefangen|begonnen)\b|^(?=.*\b(?:noch|vorerst|derzeit|momentan|aktuell|im moment|zurzeit)\b).*\b(?:beispieldaten|testdaten|dummy-?\w+|fest(?:e|en) (?:werte|daten)|platzhalter\w*|fest codiert\w*)\b|\bzur hälfte\b|\bteilweise (?:umgesetzt|implementiert|fertig|umgestellt|erledigt|übersetzt)",
    r"\b(?:habe|haben|wurde|wurden|ist|sind)\b[^.;!?]{1,120}\b(?:ge\w+|\w+ge\w+t|\w+iert|\w+ergänzt|ergänzt|entfernt|ersetzt|behoben|erstellt|verschoben|übersetzt|überarbeitet|vereinfacht|erweitert|erledigt|fertig|beschrieben)\b|\bjetzt (?!\w+ ich)|\bnun (?!\w+ ich)|\berledigt\b|\bfertig\b|\blaufen durch\b|\bfunktioniert?(?:en)?\b|\bsteht\b",
)

_WORK_FR = r"(?:implémenter|compléter|écrire|terminer|finir|coder|remplir|brancher|relier|connecter|traduire|migrer|convertir|porter|développer|adapter|intégrer|ajouter|créer|faire|traiter|couvrir|refactoriser|remplacer|achever|câbler|reprendre|rédiger|corriger|tester|modifier|basculer)"
_NEXT_FR = r"(?:plus tard|ensuite|ultérieurement|par la suite|demain|prochainement|bientôt|à part|séparément|dans un second temps|(?:dans|lors d'|à|pour|lors de|au cours d') ?(?:une?|la|le|l'|ma|mon|un)? ?(?:prochaine?|autre|nouvelle?|deuxième|seconde?|future?)? ?(?:étape|session|message|itération|pr|phase|réponse|commit|tour|passe|ticket|partie)\b(?: (?:suivante?|ultérieure?|séparée?|à part|prochaine))?)"
_FUTURE_FR = r"\b(?:je (?:\w+ |m'|l'|les ){0,2}|j'(?:y |en )?)(?!aurai besoin|serai ravi)\w+rai\b"
_COUNT_FR = r"(?:une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|\d+)"
_FRENCH = _row(
    rf"{_FUTURE_FR}|\bje (?:vais|commence|m'en occupe|m'attaque|m'y mets|passe (?:à|au|aux|maintenant|ensuite)|procède|me lance)\b|\b(?:commençons|procédons|laissez-moi|laisse-moi)\b|\bnous allons \w+(?:er|ir|re)\b",
    rf"{_FUTURE_FR}[^.;!?]{{0,80}}{_NEXT_FR}|{_NEXT_FR}[^.;!?]{{0,60}}(?:{_FUTURE_FR}|\bje (?:vais|passe|m'occupe)\b)|\b(?:viendr|ser|suivr|arriver|fer)(?:a|ont)\b[^.;!?]{{0,60}}{_NEXT_FR}|(?<!ne )(?<!n')\b(?:il (?:me |nous |vous |te )?)?reste(?:nt)?(?: encore| donc| maintenant| ensuite| toutefois| cependant| seulement)*\b(?:[^.;!?]{{0,50}}\bà {_WORK_FR}\b| à (?!(?:re)?lancer|redémarrer|exécuter|déployer|installer|configurer))|\b(?:il (?:me |nous )?manque|manquent)\b(?: encore)? (?:les?|la|l'|encore|des?)\b|\bn(?:'ai|e sont|'est|'ont|'a|e) (?:\w+ )?pas encore\b|\bpas (?:encore )?eu le temps\b|\b(?:le|la|les) (?:reste|suite|autres|suivante?s?)\b[^.;!?]{{0,40}}\b(?:viendr\w+|suivr\w+|rest\w+ à|attend\w*|à venir|encore à|ser(?:a|ont) (?:fait|traité|ajouté|migré|traduit)\w*)\b|\bje (?:remets|reporte|garde|laisse)\b[^.;!?]{{0,40}}\b(?:à plus tard|pour plus tard|pour (?:une|la|un|le) (?:autre|prochaine?))|^\W*(?:reste à faire|à faire|restant|encore à faire)\s*:",
    rf"\b(?:vous (?:devez|devrez|pouvez|n'avez plus qu'à|aurez à)|tu (?:dois|devras|peux|n'as plus qu'à|auras à)|il (?:vous|te) (?:faut|faudra|reste|suffira de|appartient|revient))\b(?: encore| ensuite| maintenant| donc| seulement| plus| toujours)*(?: à| de| d'| qu'à)? ?{_WORK_FR}\b(?! (?:la |votre |ta )?(?:clé|variable|mot de passe))|\b(?:c'est |à )(?:vous|toi) de (?:jouer|{_WORK_FR})|\bles autres\b[^.;!?]{{0,80}}\b(?:vous pouvez|tu peux|il (?:vous |te )?suffit d(?:e|['’])) ?(?:\w+ )?(?:copier|répéter|adapter|changer|convertir|traduire|migrer|faire|suivre|créer|écrire|ajouter|reprendre)\b|\bce qu['’](?:il (?:vous|te) reste à faire|il reste à faire)\b(?!{_OPERATE})|\bce que (?:vous devez|tu dois) encore faire\b(?!{_OPERATE})|\bje (?:vous|te) laisse\b(?! (?:juge|décider|choisir|le choix|relire|vérifier|tester|essayer))|\b(?:voulez-vous|souhaitez-vous|veux-tu|souhaites-tu|dois-je) (?:que je )?(?:passe|continue|poursui\w+|enchaîne|m\'attaque|continuer|passer)\b|\b(?:à votre charge|à ta charge|de votre côté|de ton côté)\b[^.;!?]{{0,60}}{_WORK_FR}|{_WORK_FR}[^.;!?]{{0,60}}\b(?:à votre charge|à ta charge|de votre côté|de ton côté|vous-même|toi-même)|\b(?:répétez|répète|faites|fais|appliquez|applique|procédez|procède)\b[^.;!?]{{0,50}}\b(?:autres|restant\w*|reste|suivant\w*)\b|\b(?:complétez|implémentez|remplissez|écrivez|terminez|complète|remplis) (?:ensuite |vous-même |toi-même )?(?:le reste|la logique|les autres|la partie|le corps)",
    r"\bfaute de (?:temps|place)|\bpar manque de (?:temps|place)|\b(?:en raison|à cause|compte tenu) d(?:e|es|u)(?: la)? ?(?:longueur|limite|limites|temps|place|taille)[^.;!?]{0,60}\b(?:seul|que|reste|ici|partie|première?|pas)|\bpour des raisons de (?:longueur|place|temps)|\bje (?:m'arrête|m'interromps|stoppe|m'arrêterai) (?:ici|là|à ce stade)|\bla suite (?:dans|au|plus tard|viendra|suit)",
    rf"\b{_COUNT_FR} (?:des|de|sur|parmi) (?:les |ces |mes )?(?:deux|trois|quatre|cinq|six|sept|huit|neuf|dix|\d+)\b(?!.*\btests?\b)|\b(?:pour l'instant|pour le moment|jusqu'ici|jusqu'à présent|à ce stade),? (?:seule?s?|seulement|je n'ai|j'ai|il n'y a|uniquement)\b|\b(?:seule?s?|seulement|uniquement|que)\b[^.;!?]{{0,50}}\b(?:pour l'instant|pour le moment|jusqu'ici|à ce stade)\b|\bla (?:moitié|première (?:partie|moitié)) d[eu]s?\b[^.;!?]{{0,40}}\b(?:est|sont|j'ai)\b|\bj'ai (?:commencé|entamé|débuté)\b|^(?=.*\b(?:pour l\'instant|pour le moment|encore|actuellement|provisoirement)\b).*\bdonnées (?:fictives|factices|simulées|en dur|de test)\b|\bà moitié (?:fait|terminé|traduit|migré)|\bpartiellement (?:fait|terminé|traduit|migré|implémenté)",
    r"\b(?:j'ai|nous avons|a été|ont été|est|sont)(?: maintenant| désormais| bien| aussi| tou[ts]e?s?)? (?:\w+é(?:e|s|es)?|\w+(?:i|u|is|it|rt|int)(?:e|s|es)?)\b|\b(?:désormais|maintenant) (?!je)|\bc'est fait\b|\bterminé\b|\bpassent?\b",
)

ROWS: tuple[Row, ...] = (_ENGLISH, _JAPANESE, _CHINESE, _KOREAN, _SPANISH, _GERMAN, _FRENCH)

# A sentence with one of these is no parting: ideas beyond the request, a reason, a deed of the past, nothing left, the code's own steps.
INNOCENT = re.compile(
    r"\b(?:optional(?:ly)?|if (?:you|we|it|they|needed|necessary|required|desired|there|that|this|the|at|ever|someone|anyone|an?)\b|in case|feel free|should (?:you|it|we)\b|whenever|you (?:may|might|could)\b(?: also)?(?: want| wish| like| consider)?|"
    r"worth|nice to have|out of scope|not part of|beyond|as (?:you )?(?:asked|requested|wished|agreed|discussed)|(?:at|per|on) your request|on purpose|deliberate(?:ly)?|intentional(?:ly)?|by design|"
    r"used to|previously|already|no longer|nothing (?:else |more )?(?:is |was )?(?:left|remains?|missing|open|pending|still)|no (?:\w+ ){0,2}(?:is|are|remains?|left)|none (?:is|are|of)|unaffected|not affected|don't need|doesn't need|do not need|needs? no\b|"
    r"the (?:user|caller|client|job|worker|server|function|script|queue|scheduler|process|handler|parser|loop|program|request|browser) (?:can|will|must|should|has to|then))\b"
    r"|必要(?:であれば|なら|に応じて|でしたら)|ご希望|よろしければ|もし|任意|ご要望(?:どおり|通り)|ご指示(?:どおり|通り)|場合(?:は|には|に)|(?:残って|残り)(?:い)?(?:ません|ない|はありません)|意図的に|すべて(?:通|完了|対応済)|全(?:て|部)(?:通|完了)"
    r"|如果|如需|若(?:需|要|有|想)|可选|可以考虑|建议|有需要|按(?:照)?(?:您|你)的要求|故意|无需|不需要|没有(?:剩|遗留|其他)|全部(?:完成|通过)"
    r"|원하(?:시면|신다면)|필요하(?:시면|다면|면)|선택 ?사항|요청하신 ?대로|의도적으로|경우|남아 ?있지 않|모두 (?:통과|완료)|않아도"
    r"|\b(?:si (?:quieres|quiere|lo deseas|desea|hace falta|fuera|necesitas|se|el|la|los|las|hay|más)|opcional\w*|en caso de|cuando (?:quieras|haga)|como (?:pediste|pidió|me pediste|querías)|a propósito|(?:queda|falta) por hacer\W*(?:es\W*)?(?:reiniciar|ejecutar|desplegar|instalar|configurar|lanzar)|no (?:queda|falta|quedan|faltan|hay) (?:nada|ning\w+|pendient\w+|más)|podrías|se podría|ya no)\b"
    r"|\b(?:wenn (?:du|sie|es|ihr|das|man|die|der|mehr)|falls|optional|bei bedarf|wer (?:mag|will|möchte)|auf wunsch|wie (?:gewünscht|verlangt|besprochen|erbeten)|absichtlich|bewusst|nichts (?:mehr )?(?:offen|fehlt|übrig)|es fehlt nichts|bleibt nichts|kein\w* .{0,30}(?:offen|übrig|mehr)|könnte(?:st|n)?|ließe sich|bereits|schon)\b"
    r"|\b(?:si (?:vous|tu|besoin|nécessaire|on|le|la|les|un|une|elle)|s'il|au besoin|facultati\w+|éventuellement|en option|comme (?:demandé|convenu|souhaité)|volontairement|exprès|(?:ne|n')\s?(?:\w+ )?reste (?:plus )?(?:rien|aucun)\w*|plus rien|reste à faire\W*(?:est\W*)?(?:de\W*)?(?:re)?(?:lancer|démarrer|exécuter|déployer|installer|configurer)|pourrai(?:t|ent|ez|s)|déjà)\b",
    re.IGNORECASE,
)
# What is handed back is a decision, no work.
DECISION = re.compile(
    r"\b(?:up|left) to you,? (?:which|whether|how|what|when|where|who|if|to (?:decide|choose|say|judge|pick))\b|\b(?:decision|choice)\b[^.;!?]{0,40}\b(?:to you|yours)\b",
    re.IGNORECASE,
)
# A reason says why something was not to be done; it excuses what is open, not what is handed back.
REASON = re.compile(
    r"\b(?:because|since (?:they|it|the|those|these)|as (?:they|it|those|these) (?:do|does|are|is|have|has)|weil|da (?:sie|es|er)|porque|ya que|puesto que|parce que|puisque|car)\b|なので|からです|ため(?:です|、)|因为|由于|때문",
    re.IGNORECASE,
)
# That it is hard or long is no reason to leave it.
EFFORT = re.compile(
    r"\b(?:hard(?:est|er)?|difficult|tricky|tricki\w+|complex|complicated|long|large|larger|big|bigger|biggest|much work|a lot|effort|time|demanding|involved|risky|"
    r"schwierig\w*|schwer\w*|aufwendig\w*|aufwändig\w*|komplex\w*|kompliziert\w*|umfangreich\w*|lang|groß\w*|difícil\w*|complej\w+|complicad\w+|larg[oa]s?|trabajo|difficiles?|complexes?|compliquée?s?|longue?s?|travail)\b"
    r"|難し|複雑|大き|長い|手間|時間|困难|难|复杂|太(?:大|长)|费时|工作量|어렵|복잡|크기|커서|길어|시간",
    re.IGNORECASE,
)
# What a person is asked to bear with; it neither reports work nor ends it.
WAITING = re.compile(
    r"^\W*(?:(?:this|it) (?:should|will|may|might) (?:only )?take\b|(?:please )?(?:wait|stand by|hold on|bear with me|hang on|one moment|give me)\b|just a (?:moment|sec|minute|few)|here (?:we|i) go|stay tuned|(?:thanks|thank you)\b|more (?:soon|shortly)|i'll (?:report back|keep you|be back|get back|update you|let you know)|"
    r"(?:少々|少し|しばらく)?(?:お)?待ち|しばらく|よろしくお願い|请(?:稍等|稍候|等待|等一)|稍等|马上(?:就)?好|잠시만|조금만|기다려|(?:un|espera un|dame un|deme un) momento|espera|en breve|einen (?:moment|augenblick)|moment bitte|bitte warten|(?:un|une) (?:instant|moment|minute)|merci de patienter|patientez|"
    r"das (?:dauert|wird)|esto (?:tardará|llevará|puede)|cela (?:prendra|devrait)|ça (?:prendra|devrait))",
    re.IGNORECASE,
)
# A line that heads a list of what is still to be done, and one whose list may as well be deployment or ideas.
HEADING = re.compile(
    r"^\W*(?:remaining(?: (?:work|items?|tasks?|steps?|parts?|points?))?|still (?:to do|to be done|open|missing|left|pending|outstanding|needed|required)|left to do|not (?:yet )?(?:done|covered|implemented|included|migrated|converted)(?: yet)?|what(?:'s| is) (?:still )?(?:left|missing|open)(?: to do)?|what remains|outstanding(?: \w+)?|to[- ]?do|pending(?: \w+)?|open (?:items?|tasks?|points?|work)|unfinished(?: \w+)?|(?:残(?:り|って)?(?:いる)?(?:の)?(?:作業|タスク|課題|対応)|未(?:対応|実装|完了|着手)(?:の)?(?:項目|作業|部分|機能)?|今後の(?:作業|タスク|対応))|"
    r"(?:剩余|剩下|待完成|待办|未完成|尚未完成|后续)(?:的)?(?:工作|任务|事项|部分|内容|待办)?|(?:남은|미완료|미구현)\s?(?:작업|일|할 일|항목|부분)?|(?:trabajo |tareas? )?pendientes?|(?:queda|falta)n?(?: por hacer)?|por hacer|(?:noch )?offen(?:e punkte|e aufgaben)?|noch (?:offen|zu (?:tun|erledigen))|ausstehend|verbleibende?(?: \w+)?|(?:il )?reste à faire|à faire|restant|travail restant)\s*(?:\([^)]*\))?\W*$",
    re.IGNORECASE,
)
NEXT_STEPS = re.compile(
    r"^\W*(?:(?:the )?next(?: steps?)?|what(?:'s| is) next|follow[- ]?ups?|次の?ステップ|下一步(?:计划|工作)?|다음 ?(?:단계|작업)|próximos pasos|siguientes? pasos?|nächste schritte|(?:prochaines|les prochaines) étapes)\s*(?:\([^)]*\))?\W*$",
    re.IGNORECASE,
)
TO_BE_DONE = re.compile(
    r"^\W*(?:\[ \]\s*)?(?:\d+[.)]\s*)?\W*(?:(?:implement|finish|complete|wire|hook up|connect|convert|port|flesh out|fill in|write|build|handle|do) (?:up )?(?:the|all|proper|real|actual|unit|integration|remaining|rest|\w+ tests|tests)\b|(?:add|create|migrate|translate|update|move|replace) (?:the )?(?:remaining|rest|other|missing|tests|unit tests|actual|real|error handling|validation|handlers?|endpoints?|controllers?|views?|logic))"
    r"|(?:実装|移行|作成|変換|翻訳)(?!済)(?:する)?\W*$|^\W*(?:实现|编写|补充|完成|迁移|改造|翻译)|(?:구현|작성|변환|마이그레이션)(?:하기)?\W*$|^\W*(?:\d+[.)]\s*)?(?:implementar|escribir|completar|migrar|traducir|terminar)\b|\b(?:implementieren|schreiben|umstellen|ergänzen|übersetzen|migrieren|anbinden)\W*$|^\W*(?:\d+[.)]\s*)?(?:implémenter|écrire|compléter|migrer|traduire|terminer)\b",
    re.IGNORECASE,
)
NOTHING = re.compile(
    r"^\W*(?:none|nothing|no\b|n/a|0\b|なし|ありません|無し|无|没有|없음|없습니다|nada|ningun[oa]|keine?s?\b|nichts|rien|aucun)",
    re.IGNORECASE,
)
