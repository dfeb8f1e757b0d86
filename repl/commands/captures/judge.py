"""`pm capture judge`: score one captured session, or measure how far the judge agrees with people."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from repl.commands.captures.collector import find_row, opened_collector
from repl.present.text import count_text, one_line
from tracer.errors import ConfigError, ConflictError

if TYPE_CHECKING:
    from collector.collector import Collector
    from collector.judge.calibrate import Agreement, Calibration, Graded, Label
    from collector.judge.rubric_judge import ChosenJudge, RubricJudge
    from collector.store.port import TraceRow
    from repl.context import Context

_SHOWN_REASON: Final = 300


async def judge_session(context: Context, arguments: Namespace) -> None:
    from collector.final.document import materialize
    from collector.judge.step import judge_trace
    from collector.qa.pipeline import leased

    async with opened_collector(context, create=True) as collector:
        row = await _closed(collector, arguments.trace)
        if arguments.packet:
            await _show_packet(context, collector, row)
            return
        judge = _needed_judge(context, record=arguments.record)
        try:
            async with leased(collector.store, row.trace_id):
                part = await judge_trace(row.trace_id, collector=collector, judge=judge, clean=_clean(context))
                document = await materialize(row.trace_id, store=collector.store, blobs=collector.blobs)
        finally:
            await judge.close()
    _print_verdict(context, part)
    context.output.result(
        "capture judge", {"trace_id": row.trace_id, "judge": part, "final_trace_blob_id": document.blob_id}
    )


async def _show_packet(context: Context, collector: Collector, row: TraceRow) -> None:
    """Print what would be sent; nothing is sent, so no consent is needed to look."""
    from collector.final.qa_facts import fold_qa
    from collector.judge.packet import build_packet
    from collector.judge.step import TraceBlobs, gather_material, proof_text

    folded = fold_qa(await collector.store.qa_facts(row.trace_id))
    tests = folded.tests.model_dump() if folded is not None and folded.tests is not None else None
    blobs = TraceBlobs(collector, row.trace_id, redacted=True)
    material = await gather_material(row, events=collector.store, read_text=blobs.read_text, proof=proof_text(tests))
    packet = build_packet(material, clean=_clean(context))
    if context.output.human:
        context.output.data(packet.text.encode("utf-8", "replace"))
    context.output.result(
        "capture judge", {"trace_id": row.trace_id, "packet": packet.text, "hash": packet.content_hash}
    )


def _print_verdict(context: Context, part: dict[str, Any]) -> None:
    output, detail = context.output, part.get("detail", {})
    for name, value in part["scores"].items():
        cited = len(detail.get("citations", {}).get(name, []))
        output.line(f"  {_number(value)}  {name}  ({count_text(cited, 'event')} cited)")
    confidence = detail.get("correctness_confidence")
    if confidence is not None:
        output.line(f"  {_number(confidence)}  correctness_confidence")
    output.line(f"  {_number(part['overall'])}  overall   {one_line(part['model'])}, rubric {part['rubric_version']}")
    if part["flags"]:
        output.line(f"  flags: {', '.join(part['flags'])}")
    if detail.get("reason"):
        output.note(f"  {one_line(str(detail['reason']))[:_SHOWN_REASON]}")


def _number(value: float | None) -> str:
    return " - " if value is None else f"{value:.1f}"


async def calibrate_judge(context: Context, arguments: Namespace) -> None:
    from collector.judge.calibrate import calibrate, given_labels, read_labels

    labels = read_labels(context.path(arguments.labels)) if arguments.labels else given_labels(context.state_dir)
    graded = await _graded(context, labels)
    told = calibrate(graded)
    _print_calibration(context, told)
    rows = [agreement._asdict() for agreement in told.agreements]
    context.output.result("capture judge calibrate", {"sessions": told.sessions, "dimensions": rows})


async def _graded(context: Context, labels: list[Label]) -> list[Graded]:
    from collector.judge.calibrate import Graded

    asked = [label for label in labels if label.judged is None or label.length is None]
    verdicts = await _verdicts(context, asked) if asked else {}
    known = ((label, verdicts.get(label.trace_id, (label.judged or {}, label.length or 0))) for label in labels)
    return [Graded(label.trace_id, label.scores, *told) for label, told in known]


async def _verdicts(context: Context, labels: list[Label]) -> dict[str, tuple[dict[str, Any], int]]:
    """The judge's scores and the packet's length, by trace; kept, so that a second calibration costs nothing."""
    from collector.judge.calibrate import RememberedScores
    from collector.judge.step import prepared_step

    judge = RememberedScores(_needed_judge(context), context.state_root / "verdicts")
    verdicts: dict[str, tuple[dict[str, Any], int]] = {}
    try:
        async with opened_collector(context, create=True) as collector:
            for label in labels:
                row = await _closed(collector, label.trace_id)
                facts = await collector.store.qa_facts(row.trace_id)
                step = await prepared_step(row, collector=collector, judge=judge, clean=_clean(context), facts=facts)
                if step.packet is None:
                    context.output.note(f"{row.trace_id}: left out, {step.skip}")
                    verdicts[label.trace_id] = ({}, 0)
                    continue
                result = await judge.judge(step.packet)
                scores = {**result.scores, "overall": result.overall}
                scores["correctness_confidence"] = result.correctness_confidence
                verdicts[label.trace_id] = (scores, len(step.packet.text))
                context.output.detail(f"{row.trace_id}: overall {_number(result.overall)}")
    finally:
        await judge.close()
    return verdicts


def _print_calibration(context: Context, told: Calibration) -> None:
    from collector.judge.calibrate import FEW

    output = context.output
    output.line(f"{count_text(told.sessions, 'session')}; quadratically weighted kappa, judge minus people")
    output.line(f"  {'dimension':<27}{'n':>4}{'none':>6}{'kappa':>8}{'diff':>8}{'by length':>11}{'per doubling':>14}")
    for row in told.agreements:
        output.line(_agreement_line(row))
    if told.sessions < FEW:
        output.note(f"  fewer than {FEW} sessions: these figures say little")
    output.note("  by length: rank correlation of (judge - people) with the packet's length; 0 is fair")


def _agreement_line(row: Agreement) -> str:
    figures = (row.kappa, row.difference, row.length_rank, row.length_slope)
    kappa, difference, rank, slope = ("-" if figure is None else f"{figure:+.2f}" for figure in figures)
    return f"  {row.dimension:<27}{row.compared:>4}{row.missing:>6}{kappa:>8}{difference:>8}{rank:>11}{slope:>14}"


async def _closed(collector: Collector, trace_id: str) -> TraceRow:
    row = await find_row(collector.store, trace_id)
    if row.status == "open":
        raise ConflictError(f"capture {trace_id!r} is still open", next_step=f"pm capture finalize {trace_id}")
    return row


def find_judge(context: Context, *, record: str | None = None) -> ChosenJudge:
    """The judge that the settings name, or why there is none."""
    from collector.judge.models import LocalPace
    from collector.judge.rubric_judge import choose_judge

    settings = context.settings()
    pace = LocalPace(float(settings.get("judge.per_minute")))
    return choose_judge(settings, context.environ, pace=pace, record=context.path(record) if record else None)


def _needed_judge(context: Context, *, record: str | None = None) -> RubricJudge:
    judge, why = find_judge(context, record=record)
    if judge is None:
        raise ConfigError("there is no judge", why=why, next_step="export ANTHROPIC_API_KEY, or set judge.recording")
    return judge


def _clean(context: Context) -> Callable[[str], str]:
    redactor = context.redactor()
    return lambda text: redactor.redact_text(text)[0]
