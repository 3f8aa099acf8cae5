"""TensorPlay, instrumented from Python: its ops, Python spans and sampled stacks in one trace, and its own exporter replaced.

    pip install "$TPTRACE/bindings/python" tensorplay
    python tensorplay_profile.py [FOLDER]
"""

import pathlib
import sys

import tensorplay
import tensorplay.profiler

import tptrace

# TensorPlay's own exporters are tptrace's from here on.
tptrace.integrate.tensorplay()


@tptrace.span("load")
def batches(count):
    """A decorated generator is a slice each time that it makes an item."""
    for _ in range(count):
        yield tensorplay.randn(64, 32), tensorplay.randn(64, 1)


def train(model, optimizer, x, y):
    with tptrace.span("forward", rows=64):
        loss = ((model(x) - y) ** 2).mean()
    with tptrace.span("backward"):
        optimizer.zero_grad()
        loss.backward()
    with tptrace.span("optimizer"):
        optimizer.step()
    tptrace.counter("loss", loss.item())


def main(folder):
    nn = tensorplay.nn
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = tensorplay.optim.SGD(model.parameters(), lr=0.01)

    # One trace for each cycle of three steps, with everything in it.
    with tptrace.Profiler(
        schedule=tptrace.schedule(wait=1, warmup=1, active=3, repeat=2),
        on_trace_ready=tptrace.trace_handler(folder),
        sources=[tptrace.integrate.TensorPlay(record_shapes=True)],
        sampler=True,
    ) as profiler:
        for x, y in batches(10):
            train(model, optimizer, x, y)
            profiler.step()

    # TensorPlay's profiler as it is: only its exporter is another one.
    with tensorplay.profiler.profile(record_shapes=True) as profile:
        for x, y in batches(3):
            train(model, optimizer, x, y)
    profile.export_chrome_trace(str(folder / "tensorplay.json.gz"), torch_compat=True)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "traces")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
    for path in sorted(target.iterdir()):
        print(path)
