"""Drivers that write whatever they like whenever they like, at a model that always answers."""

import json
import os
import random

import pytest

from llm_server import LlmServer, call, finish, say
from support.control_stream_client import Driver
from support.terminal_session import Installed, at

SEEDS = range(20) if os.environ.get("ROOKERY_TORTURE") else range(2)
LOOK = call("list_files", path=".", recursive=False)
ASK = call("ask_followup_question", question="Which?", follow_up=[{"text": "this", "mode": None}])


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_is_lost_or_heard_twice_whenever_it_comes(rookery: Installed, seed: int):
    chance = random.Random(seed)
    with (
        LlmServer(*[[say("Hm"), finish(f"{number}.")] for number in range(200)]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s", prompt="go")
        names = [f"m{number}" for number in range(40)]
        for name in names:
            driver.send("message", name, prompt=f"words of {name}.")
            match chance.randrange(4):
                case 0:
                    driver.done(name)
                case 1:
                    driver.wait(type="user", requestId=name)
                case _:
                    pass
        assert driver.end() == 0
    said = [event for event in driver.of(type="user") if event["requestId"] != "s"]
    assert [event["requestId"] for event in said] == names
    assert [event["content"] for event in said] == [f"words of {name}." for name in names]
    conversation = json.dumps(server.requests[-1].body["messages"])
    assert [conversation.count(f"words of {name}.") for name in names] == [1] * 40
    results = [event["requestId"] for event in driver.of(type="result")]
    assert results == sorted(results, key=["s", *names].index)
    assert results[-1] == names[-1]
    assert {code for name in names for _, code in driver.replies(name)} <= {
        *("accepted", "responded", "queued")
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_every_request_is_settled_whatever_a_driver_does(rookery: Installed, seed: int):
    chance = random.Random(seed)
    answers = [
        chance.choice([[finish()], [say("Hm"), LOOK], [ASK], [say("Hm")]]) for _ in range(400)
    ]
    commands = [
        "start",
        "message",
        "message",
        "cancel",
        "approve",
        "reject",
        "answer",
        "clear",
        "ping",
    ]
    with LlmServer(*answers) as server, Driver(rookery, *at(server)) as driver:
        names = []
        for number in range(120):
            command = chance.choice(commands)
            name = f"{command}{number}"
            names.append(name)
            fields = {
                "start": {"prompt": "go"},
                "message": {"prompt": "on"},
                "answer": {"text": "x"},
            }
            driver.send(command, name, **fields.get(command, {}))
            if chance.random() < 0.3:
                driver.wait(type="control", requestId=name)
        driver.send("shutdown", "end")
        assert driver.exit_code() == 0
    for name in [*names, "end"]:
        kinds = [subtype for subtype, _ in driver.replies(name)]
        assert kinds in (["ack", "done"], ["error"]), (name, driver.replies(name))
    assert [event for event in driver.of(type="error") if "id" not in event] == []
    starts = [name for name in names if name.startswith("start")]
    begun = [name for name in starts if ("ack", "accepted") in driver.replies(name)]
    results = driver.of(type="result")
    assert len(begun) >= 1
    assert {name for name, event in zip(begun, results, strict=False)} <= set(begun)
    assert len(results) >= len(begun)
