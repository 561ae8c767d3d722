"""glassformer bench embed: sentences a second through an encoder, beside its peers."""

from typing import Annotated

import typer


def embed(
    small: Annotated[bool, typer.Option("--small", help="a tiny model instead: to try the command")] = False,
    peers: Annotated[
        bool, typer.Option(help="measure onnxruntime, CTranslate2, transformers too, where installed")
    ] = True,
    seconds: Annotated[float, typer.Option(min=0, help="how long a turn lasts at least")] = 0.5,
    rounds: Annotated[int, typer.Option(min=1, help="turns of each side; the median counts")] = 7,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Sentences a second through a random encoder of six layers, width 384: our C, our JAX and peers.

    Example: `glassformer bench embed --rounds 11`
    """
    from glassformer.bench import ctranslate2_peer
    from glassformer.bench.embedding import LARGE, ONNXRUNTIME, SMALL, TOKENS, Contest
    from glassformer.bench.generation_peers import transformers_version
    from glassformer.cli.bench import unsteady
    from glassformer.cli.output import progress, report
    from glassformer.cores import cores
    from glassformer.hub.onnx_file import onnxruntime_version

    contest = Contest(SMALL if small else LARGE, seconds, with_peers=peers)
    for _ in progress(contest.run(rounds), rounds + 1, "reading"):
        pass
    result = contest.result()
    answer = {
        "onnxruntime": onnxruntime_version() if peers else None,
        "ctranslate2": ctranslate2_peer.version() if peers else None,
        "transformers": transformers_version() if peers else None,
        "cores": cores(),
        "rounds": rounds,
        **result.plain(),
    }
    rates = result.sentences_per_s
    lines = ["sentences a second" + "".join(f"  {side:>12}" for side in rates)]
    for i, length in enumerate(result.lengths):
        lines.append(f"of {length:3} tokens     " + "".join(f"  {of_side[i]:12.1f}" for of_side in rates.values()))
    lines += ["", f"median of {rounds} turns of batches of {TOKENS:,} tokens, one after the other on {cores()} cores"]
    for side, ratios in result.ratios.items():
        lines.append(f"native reads {', '.join(f'{ratio:.2f}' for ratio in ratios)} times as many as {side}")
    lines.append(f"largest difference between two sides: {result.difference:.1e} of the largest number")
    if result.without_native:
        lines.append(f"native is left out: {result.without_native}")
    if not peers:
        lines.append("peers are left out, as --no-peers asks")
    elif ONNXRUNTIME not in rates:
        lines.append("onnxruntime is left out: it is not installed; `pip install glassformer[parity]`")
    report(answer, "\n".join(lines + unsteady([result.spread])), as_json=json)
