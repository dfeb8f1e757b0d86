"""Comments in seven languages: those that stand for missing work, and those that use the same words for behaviour."""

from __future__ import annotations

import pytest

from runner.gate.code_criteria import review_file
from runner.gate.comments import DOMAIN
from runner.gate.criterion import ChangedFile, Evidence
from runner.gate.verdict import BUILT_IN, judge

MISSING = """
# ... rest of code ...
# rest of the implementation remains the same
# (rest of the class stays unchanged)
# [Rest of the code remains unchanged]
# Rest of your code
# ... (previous code remains unchanged)
# ... other imports
# ... keep existing imports
# existing code
# Existing code remains unchanged...
# ...existing code...
# previous implementation here
# ... remaining code ...
# ... more methods here
# Other methods remain the same
# All other functions are the same as before
# Same as original
# same as before
# (unchanged)
# unchanged code above
# Code omitted for brevity
# Implementation omitted
# Omitted for clarity
# ... (omitted)
# snip
# [snip]
# --- snip ---
# etc.
# ... etc
# and so on...
# Your code here
# your logic here
# Your implementation goes here
# Add your code here
# Add implementation here
# Insert code here
# TODO
# todo
# TODO - add tests
# @todo handle errors
# todo(me): fix
# FIXME!!!
# XXX: broken
# HACK: remove me
# TBD
# Not implemented
# not implemented yet
# Not yet implemented
# To be implemented
# to be implemented later
# Implement this later
# implement me
# needs implementation
# implementation pending
# Placeholder
# placeholder for actual implementation
# This is a placeholder implementation
# placeholder logic
# This is just a placeholder
# Replace with actual implementation
# replace this with your actual API call
# stub
# Stub implementation
# This is a stub
# Dummy implementation
# Mock implementation for now
# Simplified for now
# Temporary implementation
# temporary solution, replace later
# In a real implementation, this would query the database
# In a real-world scenario, you'd validate the token
# This would normally call the API
# Would be implemented in a full version
# For demo purposes, return a fixed value
# For simplicity, we skip validation here
# hardcoded for now
# return dummy data for now
# left as an exercise
# Logic to be added
# Add more cases as needed
# Add more fields as needed
# ... add more as needed
# Handle other cases similarly
# Repeat for other fields
# similar logic for the other types
# Continue with the rest of the implementation
# Continue implementing...
# ... (continue for the remaining methods)
# Complete the implementation
# Finish this function
# Fill in the details
# fill in
# not done yet
# unfinished
# WIP
# work in progress
# Coming soon
# will be implemented soon
# We'll implement this in the next step
# implementation left to the reader
# actual implementation here
# body omitted
# function body here
# See previous version for the rest
# see original file for the rest
# No changes below this line
# the code above is unchanged
# nothing changed below
# imports stay the same
# [... truncated ...]
# <rest of code>
# <existing code>
# {existing code}
# *** rest of file unchanged ***
# ----- existing code -----
# ... lines 20-80 unchanged ...
# [lines omitted]
# 10 more lines
# ... 15 more tests ...
# Keep the rest as is
# keep existing code
# 残りの実装は同じ
# 残りは省略
# 以下同様
# 既存のコード
# 既存の処理はそのまま
# ここに処理を実装
# ここに実装を追加してください
# 後で実装する
# 未実装
# 仮実装
# 実装は省略
# 中略
# TODO: 後で直す
# 其他代码保持不变
# 其余代码省略
# 省略其他方法
# 这里添加你的代码
# 在这里实现
# 待实现
# 稍后实现
# 暂未实现
# 同上
# 具体实现略
# 剩余部分与之前相同
# 占位实现
# 나머지 코드는 동일합니다
# 나머지는 생략
# 여기에 코드를 작성하세요
# 기존 코드 유지
# 추후 구현
# 아직 구현되지 않음
# 나중에 구현
# 이하 생략
# resto del código igual
# el resto del código permanece igual
# código existente
# aquí va tu código
# implementar más tarde
# pendiente de implementar
# por implementar
# falta implementar
# sin implementar
# tu lógica aquí
# resto de métodos omitidos
# Rest bleibt gleich
# restlicher Code unverändert
# bestehender Code
# hier Code einfügen
# hier implementieren
# später implementieren
# noch nicht implementiert
# muss noch implementiert werden
# wie oben
# ... weitere Methoden
# gekürzt
# reste du code inchangé
# le reste du code reste identique
# code existant
# ajouter votre code ici
# à implémenter
# à compléter
# pas encore implémenté
# implémentation à venir
# votre logique ici
# reste inchangé
"""

BEHAVIOUR = """
# Returns the rest of the tokens.
# Skip the rest of the line.
# The rest of the arguments are passed through.
# Read the rest of the body
# ignore the remaining bytes
# other columns are computed lazily
# Existing users keep their settings.
# existing entries are overwritten
# Same as above but for bytes
# Same key, different value
# Keep the connection alive
# Keep existing headers
# Add the header here because proxies strip it
# We insert here so that the order is stable
# Here we add the node to the list
# Add the new item
# Add item to cart
# Handle errors
# Handle edge case: empty list
# Implement the observer pattern
# Implements RFC 6902
# Implementation notes: uses a heap
# The implementation follows the paper.
# Implementation detail: do not rely on it
# Not found
# Not supported on Windows
# not done until the flag is set
# The job is not finished yet, so wait.
# done later by the worker
# Processed later by the scheduler
# Will be called later
# Waits for the download to be completed
# data to be written
# Bytes still to be written
# items to be processed
# Pending requests
# pending tasks
# missing keys are ignored
# Omit empty fields
# Null values are omitted.
# omitted when empty
# optional; may be omitted
# Truncated to 80 characters
# truncated output is marked with an ellipsis
# Placeholder text for the input
# placeholder shown when there is no image
# placeholders are replaced with values
# Use a placeholder for missing images
# Dummy head node simplifies insertion
# dummy variable
# Mock server for tests
# Temporary file
# temporary directory, removed on exit
# Fake clock for tests
# Simulates a slow network
# simulation step
# hack the mainframe
# Hackathon project
# todo list
# todo items are sorted by date
# the todo list of the user
# TODO list app
# TODO items
# Loads all todos
# mark the todo as done
# state is TODO, DOING or DONE
# Matches TODO and FIXME comments
# see TODO.md
# e.g. "TODO: x"
# XXX-XX-XXXX
# format: XXX.XX
# Roman numeral XXX
# e.g. 1, 2, 3, ...
# a, b, c, ...
# from 1 to n: 1, 2, ..., n
# Loading...
# wait for it...
# Hmm, this is subtle...
# *args, **kwargs
# spread ...props
# {...rest} is passed to the input
# etc/hosts
# /etc/passwd
# Etc is a directory
# See above.
# see below for details
# as above
# unchanged since 1970
# returns the list unchanged
# leaves the input untouched
# remains valid until closed
# the original order is kept
# Original author: Ann
# previous value
# Previous page
# current code point
# Copy the remaining elements
# the remaining elements are larger
# Append remaining items
# Remaining time in seconds
# other threads may wait here
# Other options
# Additional headers
# more than one match
# further reading: the paper
# Your API key goes into the environment, not into this file.
# your name is shown in the header
# The actual value is computed by the caller.
# real numbers
# In real time
# In production we use TLS.
# in production mode, errors are hidden
# Replace the value with its hash
# Replace this node with its child
# replace with caution
# stub resolver
# gRPC stub
# Creates a stub for the service
# Unfinished transactions are rolled back.
# incomplete input raises EOFError
# Incomplete gamma function
# partial result
# coming from the parser
# Soon-to-expire certificates
# progress bar
# work queue
# quick sort
# fix: off-by-one error
# Fixes #123
# fixed point iteration
# Finish the transaction
# Complete the future with the result
# completes the promise
# fill in the cache
# Fill the buffer
# repeat for each row
# Repeat the last byte
# similarly to map()
# Similar to str.join
# continue with the next item
# Continue reading
# the same goes for tuples
# it goes here first, then there
# logic gate
# code page 1252
# body of the request
# Exercise the cache
# snippet from the docs
# cut here
# brevity is the soul of wit
# for clarity, use names
# For simplicity's sake we use one lock.
# no changes were made by the user
# No change
# nothing changed: keep the cache
# 残りの要素を処理する
# 残り時間を計算
# 後で使うために保存する
# 省略可能な引数
# 長い名前は省略される
# 同じキーは上書きされる
# 以下の条件を満たす場合
# 既存のユーザーを検索する
# 其他用户
# 剩余时间
# 其他字段使用默认值
# 省略号
# 之前的值
# 稍后重试
# 待处理的任务
# 未完成的任务
# 나머지 값을 계산한다
# 기존 사용자를 찾는다
# 나중에 다시 시도
# 생략 가능
# el resto de la división
# resto de los elementos
# código de error
# tareas pendientes
# aquí se guarda el resultado
# después se cierra
# Rest der Division
# weitere Optionen
# hier wird gespeichert
# bestehende Kunden
# später erneut versuchen
# wie im Handbuch beschrieben
# le reste de la division
# reste à payer
# code d'erreur
# tâches à faire
# ici on enregistre
# plus tard, on ferme
"""


def found(comment: str, after: str) -> list[str]:
    source = f"def f(a):\n    x = g(a)\n    {comment}\n{after}"
    file = ChangedFile(path="src/a.py", before=None, after=source.encode())
    return [criterion for criterion, _ in review_file(file)]


def test_a_comment_in_place_of_work_is_found() -> None:
    for comment in MISSING.strip().split("\n"):
        assert found(comment, "    return x\n") in (["Q2"], ["Q3"], ["Q2", "Q3"], ["Q3", "Q2"]), comment


def test_a_comment_on_behaviour_is_left_alone() -> None:
    for comment in BEHAVIOUR.strip().split("\n"):
        assert found(comment, "    y = h(x)\n    return y + 1\n") == [], comment


def test_check_after_a_mark_is_work_to_do_unless_it_names_a_check() -> None:
    assert not DOMAIN.match(" check rounding")
    assert not DOMAIN.match(" check")
    assert DOMAIN.match(" check runs on every file")


def _has_marks(answer: str, text: bytes) -> bool:
    file = ChangedFile(path="guide.md", before=None, after=text)
    evidence = Evidence(request="Write guide.md for the app", answer=answer, files=(file,))
    return not next(each["passed"] for each in judge(evidence, BUILT_IN).criteria_results if each["id"] == "Q2")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("TODO implement the second part", b"# Guide\n\nOpen it.\n"),
        ("The guide is written.\n- FIXME write the part on exports", b"# Guide\n\nOpen it.\n"),
        ("Done.", b"# Guide\n\nTODO write the part on exports\n"),
        ("Done.", b"# Guide\n\n- **TODO** finish the table\n"),
    ],
)
def test_a_mark_word_before_a_verb_of_work_needs_no_colon(answer: str, text: bytes) -> None:
    assert _has_marks(answer, text)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("TODO lists can be exported now.", b"# Guide\n\nTODO items are sorted by date.\n"),
        ("Done.", b"# Guide\n\nTODO lists\n\nA TODO is done with one key.\n"),
    ],
)
def test_a_mark_word_that_is_a_name_is_left_alone(answer: str, text: bytes) -> None:
    assert not _has_marks(answer, text)
