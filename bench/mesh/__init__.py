"""How much a tailnet carries beside a plain WireGuard tunnel, between the same two computers. Needs root."""


def main(options: list[str]) -> int:
    from bench.mesh.run import main as run

    return run(options)
