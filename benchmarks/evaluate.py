"""Run the evaluation tasks with an agent and a model: `make eval`, docs/evaluation.md.

One line of `results.jsonl` is one finished trial. Start it again with the same `--out` to continue
an interrupted evaluation.
"""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from runs import ROOKERY
from scores import add_trial, comparison, outcome, read_trials, summary
from suite import Task, load_tasks
from trials import Agent, run_trial

from local_models.model_server import missing_runtime, serving

MODEL_VARIABLE = "ROOKERY_EVAL_MODEL"
SECONDS = 240
RESULTS = "results.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.compare:
        before, after = (read_trials(Path(file)) for file in options.compare)
        print(comparison(before, after))
        return 0
    if problem := _problem(options):
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    tasks = load_tasks(options.only)
    results = options.out / RESULTS
    for number in range(1, options.repeat + 1):
        seed = options.seed + number - 1
        left = [task for task in tasks if (task.name, number) not in _finished(results)]
        if left:
            with _address(options, seed) as url:
                _run_round(left, _agent(options, url), options.out, number, seed)
    print(summary([each for each in read_trials(results) if each.task in {t.name for t in tasks}]))
    return 0


def _run_round(tasks: Sequence[Task], agent: Agent, out: Path, number: int, seed: int) -> None:
    for task in tasks:
        folder = out / "trials" / f"{task.name}-{number}"
        trial = run_trial(task, agent, folder, round_number=number, seed=seed)
        add_trial(out / RESULTS, trial)
        print(f"{task.name}: {outcome([trial])}, {trial.seconds:.0f} s", flush=True)


def _finished(results: Path) -> set[tuple[str, int]]:
    return {(trial.task, trial.round) for trial in read_trials(results)}


def _problem(options: argparse.Namespace) -> str:
    """Why the evaluation cannot start; empty if it can."""
    if not options.model_file and not options.agent and not options.model:
        return f"Give --model-file FILE.gguf (or set {MODEL_VARIABLE}), or --provider and --model."
    if options.model_file and not options.model_file.is_file():
        return f"No such file: {options.model_file}."
    if options.model_file and missing_runtime():
        return missing_runtime()
    if options.settings and not options.settings.is_file():
        return f"No such file: {options.settings}."
    tasks = load_tasks(options.only)
    if not tasks:
        return f"No task is named {' or '.join(options.only)}."
    if any(task.needs_node for task in tasks) and not shutil.which("node"):
        return "The JavaScript tasks need Node, which is not installed. Use --only 'py-*'."
    return _mixed(options)


def _mixed(options: argparse.Namespace) -> str:
    """Whether `--out` already holds results of another agent, model or seed."""
    options.out.mkdir(parents=True, exist_ok=True)
    agent = _agent(options, "")
    for trial in read_trials(options.out / RESULTS):
        if (trial.agent, trial.seed) != (agent.label, options.seed + trial.round - 1):
            return (
                f"{options.out} has results of another run ({trial.agent}, seed "
                f"{trial.seed - trial.round + 1}). Give another folder with --out."
            )
    return ""


def _agent(options: argparse.Namespace, url: str) -> Agent:
    model = options.model or (options.model_file.stem if options.model_file else "")
    if options.agent:
        words = shlex.split(options.agent)
    else:
        words = [*ROOKERY, "-p", "-y", "--provider", options.provider, "-m", "{model}"]
        words += ["--base-url", "{url}"] if options.base_url or options.model_file else []
        words += ["--", "{prompt}"]
    return Agent(
        words=words,
        seconds=options.seconds,
        values={"url": url, "model": model},
        settings=options.settings,
    )


@contextmanager
def _address(options: argparse.Namespace, seed: int) -> Iterator[str]:
    """Where the model answers. A model file is served for as long as the context is open."""
    if options.base_url or not options.model_file:
        yield options.base_url
        return
    with serving(weights=options.model_file, seed=seed) as url:
        yield url


def _whole_path(text: str) -> Path:
    """The agent runs in another folder."""
    return Path(text).expanduser().resolve()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    file = os.environ.get(MODEL_VARIABLE)
    add = parser.add_argument
    add("--model-file", type=_whole_path, default=file, help=f"GGUF file; or {MODEL_VARIABLE}")
    add("--provider", default="vllm", help="rookery's provider")
    add("-m", "--model", default="", help="the model's name; by default that of the file")
    add("--base-url", default="", help="address of a server that already runs")
    add("--agent", default="", help="another command: {prompt} {url} {model} {seed} are filled in")
    add("--settings", type=_whole_path, help="settings.toml for rookery")
    add("--out", type=_whole_path, default="eval-results", help="folder for the results")
    add("--seed", type=int, default=1, help="seed of the first round; each round adds one")
    add("--repeat", type=int, default=1, help="how often each task is run")
    add("--seconds", type=float, default=SECONDS, help="time limit of a task")
    add("--only", nargs="+", default=[], metavar="NAME", help="names of tasks, or patterns")
    add("--compare", nargs=2, metavar=("A.jsonl", "B.jsonl"), help="print a before/after table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
