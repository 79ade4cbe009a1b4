"""An agent in Python that reads the head of a Python function and says what is in it, by turnq's command protocol:
one JSON line on stdin, JSON lines on stdout. The work is done by a child process, as an agent's tools are.

Environment, all optional (the config's "env" lets the names through); options of the same names in small letters win:
  RUN_LOG   a file that gets one JSON line for each start: {"turn", "attempt"}
  SHAKY     the share of attempts, 0 to 1, that kill themselves after the tool call
  PAUSE_MS  how long to think before the answer, in milliseconds

No model is asked, so its "tokens" are words, counted by itself: those of the input and those that it wrote.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

# Runs in the child: the text on stdin, one line of JSON on stdout.
READER = r"""
import ast, json, sys
text = sys.stdin.read()
tree = ast.parse(text)
functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
print(json.dumps({
    "functions": [f"{f.name}({', '.join(a.arg for a in f.args.args)})" for f in functions],
    "examples": sum(line.strip().startswith(">>>") for line in text.splitlines()),
    "lines": len(text.splitlines()),
}))
"""


def say(**line):
    print(json.dumps(line), flush=True)


def text_of(given):
    if isinstance(given, str):
        return given
    return "".join(part.get("text", "") for part in given)


def setting(options, name, fallback):
    return options.get(name.lower()) or os.environ.get(name) or fallback


def log_run(path, turn, attempt):
    # One write on a file opened for appending: lines of agents that run at once do not mix.
    line = json.dumps({"turn": turn, "attempt": attempt}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def is_unlucky(share, turn, attempt):
    # The same turn and attempt always meet the same end.
    digest = hashlib.sha256(f"{turn} {attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 < share


def read_code(text):
    """The tool: what Python's own parser sees in the text. A CalledProcessError when it is not Python."""
    say(type="tool_start", id="t1", name="read_code", args={"lines": len(text.splitlines())})
    try:
        child = subprocess.run(
            [sys.executable, "-c", READER], input=text, capture_output=True, text=True, check=True
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        say(type="tool_end", id="t1", result=reason[0], status="error")
        raise
    facts = json.loads(child.stdout)
    say(type="tool_end", id="t1", result=facts, status="ok")
    return facts


def describe(facts):
    names = facts["functions"] or ["no function"]
    count = facts["examples"]
    return f"{'; '.join(names)}: {count} example{'' if count == 1 else 's'} in {facts['lines']} lines"


def main():
    request = json.loads(sys.stdin.readline())
    turn, attempt, options = request["turn"], request["attempt"], request.get("options") or {}
    text = text_of(request["input"])
    log = setting(options, "RUN_LOG", "")
    if log:
        log_run(log, turn, attempt)

    opening = "Reading the code.\n"
    say(type="text", text=opening)
    tokens = {"inputTokens": len(text.split()), "outputTokens": len(opening.split())}
    try:
        facts = read_code(text)
    except subprocess.CalledProcessError:
        say(type="usage", **tokens)
        say(type="error", message="the input is not Python code", code="invalid_request", retryable=False)
        return
    say(type="usage", **tokens)
    time.sleep(float(setting(options, "PAUSE_MS", 0)) / 1000)
    if is_unlucky(float(setting(options, "SHAKY", 0)), turn, attempt):
        os.kill(os.getpid(), signal.SIGKILL)

    answer = describe(facts)
    tokens["outputTokens"] += len(answer.split())
    say(type="usage", **tokens)
    say(type="step_end")
    say(type="result", output=answer)


main()
