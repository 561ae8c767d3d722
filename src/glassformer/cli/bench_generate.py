"""glassformer bench generate: tokens a second, beside peers that write with the same weights."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.bench.generation import Result as Generation


def generate(
    small: Annotated[
        bool, typer.Option("--small", help="a tiny model instead of GPT-2 small: to try the command")
    ] = False,
    peers: Annotated[
        bool, typer.Option(help="measure transformers, CTranslate2, llama.cpp too, where installed")
    ] = True,
    tokens: Annotated[int, typer.Option(min=1, help="tokens written in a turn, after the first")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="turns of each side; the median counts")] = 7,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Text token by token from a random GPT-2 small: our C (float32, bf16, int8), our JAX and peers; the bandwidth.

    Example: `glassformer bench generate --tokens 32`
    """
    from glassformer.bench import ctranslate2_peer, llama_cpp_peer
    from glassformer.bench.generation import LARGE, SMALL, Contest
    from glassformer.bench.generation_peers import transformers_version
    from glassformer.bench.training import torch_version
    from glassformer.cli.output import progress, report
    from glassformer.cores import cores

    contest = Contest(SMALL if small else LARGE, tokens, with_peers=peers)
    for _ in progress(contest.run(rounds), rounds + 1, "writing"):
        pass
    result = contest.result()
    answer = {
        "torch": torch_version() if peers else None,
        "transformers": transformers_version() if peers else None,
        "ctranslate2": ctranslate2_peer.version() if peers else None,
        "llama.cpp": llama_cpp_peer.version() if peers else None,
        "cores": cores(),
        "rounds": rounds,
        **result.plain(),
    }
    how = f"median of {rounds} turns of {tokens} tokens, taken one after the other on {cores()} cores; one text, greedy"
    lines = [*generation_table(result), "", how, *generation_notes(result, peers=peers)]
    report(answer, "\n".join(lines), as_json=json)


def generation_table(result: "Generation") -> list[str]:
    sides = {side: max(len(side), 8) for side in result.token_ms}
    rows = {"": {side: side for side in sides}}
    rows["tokens a second"] = {side: f"{rate:.1f}" for side, rate in result.tokens_per_s.items()}
    for i, context in enumerate(result.contexts):
        rows[f"ms a token behind {context}"] = {side: f"{ms[i]:.2f}" for side, ms in result.token_ms.items()}
    rows["slowest and fastest"] = {side: f"± {100 * flat:.0f} %" for side, flat in result.flatness.items()}
    for i, context in enumerate(result.contexts):
        rows[f"ms to read {context}"] = {side: f"{ms[i]:.1f}" for side, ms in result.prompt_ms.items()}
    title = max(map(len, rows))
    return [
        f"{name:{title}}" + "".join(f"  {values[side]:>{width}}" for side, width in sides.items())
        for name, values in rows.items()
    ]


def generation_notes(result: "Generation", *, peers: bool) -> list[str]:
    """How many times as fast, the memory's bandwidth, and what was left out."""
    from glassformer.cli.bench import unsteady

    notes = []
    for name, other in (("native_to_transformers", result.best), ("native_to_jax", "jax")):
        if (ratio := result.ratios[name]) is not None:
            notes.append(f"native writes {ratio:.2f} times as many tokens as {other} in the same time")
    if (ratio := result.ratios["int8_to_float32"]) is not None:
        notes.append(f"native int8 writes {ratio:.2f} times as many tokens as native in float32")
    if (ratio := result.ratios["int8_to_best_int8_peer"]) is not None:
        notes.append(f"native int8 writes {ratio:.2f} times as many tokens as {result.best_int8}")
    for side in result.batch_ms:
        notes.append(f"{side}: eight texts together are {result.ratios[f'batch_{side}']:.1f} times the tokens of one")
    if result.share is not None:
        rates = [f"{1e-9 * rate:.1f} GB/s with {n} thread{'s' * (n != '1')}" for n, rate in result.bandwidth.items()]
        size, share, context = 1e-6 * result.weight_bytes, 100 * result.share, result.contexts[0]
        notes.append(f"memory is read at {', '.join(rates)}, in the same run")
        notes.append(
            f"a token reads {size:.1f} MB of weights; behind {context} native does so at {share:.0f} % of that"
        )
    if result.others:
        who = ", ".join(result.others)
        notes.append(f"other tokens were written by {who}: two of the highest scores differ by rounding only, or a bug")
    if result.without_native:
        notes.append(f"native is left out: {result.without_native}")
    if not peers:
        notes.append("transformers is left out, as --no-peers asks")
    elif result.best is None:
        notes.append("transformers is left out: it is not installed; `pip install glassformer[parity]`")
    return notes + unsteady([result.spread])
