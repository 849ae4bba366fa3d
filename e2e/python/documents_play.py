"""What the documents tell people to paste, pasted: the README's commands, its program, the server's own greeting.

The commands' output is compared with docs/transcript-sqs.md, apart from ids and receipt handles.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ADDRESS = os.environ["KEW_ENDPOINT"].removeprefix("http://")
DEFAULT = "127.0.0.1:9324"
CLOUDFLARE = os.environ["KEW_CLOUDFLARE"].removeprefix("http://")
CLOUDFLARE_DEFAULT = "127.0.0.1:9326"
AZURE = os.environ["KEW_AZURE"].removeprefix("http://")
AZURE_DEFAULT = "127.0.0.1:10001"
TRANSCRIPT = Path("docs/transcript-sqs.md")
# Whoever tries something tries it again.
TWICE = range(2)


def blocks(path, kind):
    """Fenced blocks of one kind, with the address of the server that is asked."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", Path(path).read_text(), re.M | re.S)


def here(text):
    return text.replace(DEFAULT, ADDRESS).replace(CLOUDFLARE_DEFAULT, CLOUDFLARE).replace(AZURE_DEFAULT, AZURE)


def plain(text):
    """Without what differs from run to run."""
    text = text.replace(ADDRESS, DEFAULT)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    return re.sub(r"A[A-Za-z0-9+/=]{40,}", "HANDLE", text).strip()


def shell(commands):
    """Every line as a person would paste it, followed by what it printed."""
    script = "".join(f"printf '%s\\n' {quoted('$ ' + line)}\n{line}\n" for line in commands if line)
    run = subprocess.run(["bash", "-eu", "-c", script], stdout=subprocess.PIPE, text=True, timeout=60)
    assert run.returncode == 0, f"exit code {run.returncode} after: {run.stdout}"
    assert "__type" not in run.stdout, run.stdout
    return run.stdout


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def the_readme_s_commands_print_what_the_transcript_shows():
    commands = here(readme_commands(DEFAULT)).splitlines()
    for _ in TWICE:
        got, shown = plain(shell(commands)), plain("".join(blocks(TRANSCRIPT, "console")))
        assert got == shown, f"{TRANSCRIPT} shows something else than: {got}"


def the_readme_s_cloudflare_commands_publish_pull_and_acknowledge():
    for _ in TWICE:
        output = shell(here(readme_commands(CLOUDFLARE_DEFAULT)).splitlines())
        for shown in ('"type":"http_pull"', '"backlog_count":1', '"body":"hello"', '"ackCount":1'):
            assert shown in output, output
        assert '"success":false' not in output, output


def the_readme_s_azure_commands_put_get_and_delete():
    for _ in TWICE:
        output = shell(here(readme_commands(AZURE_DEFAULT)).splitlines())
        assert "<DequeueCount>1</DequeueCount><MessageText>hello</MessageText>" in output, output
        assert "<Error>" not in output, output
    left = subprocess.run(
        ["curl", "-sS", f"http://{AZURE}/devstoreaccount1/postcards?comp=metadata", "-D", "-"],
        stdout=subprocess.PIPE, text=True, timeout=60,
    )
    assert "x-ms-approximate-messages-count: 0" in left.stdout, left.stdout


def readme_commands(address):
    """The README's only block of commands that asks this address."""
    found = [block for block in blocks("README.md", "sh") if address in block]
    assert len(found) == 1, f"{len(found)} blocks of commands ask {address}"
    return found[0]


def the_readme_s_program_runs_as_it_is():
    programs = blocks("README.md", "python")
    assert programs, "the README has no program"
    for program in programs:
        for _ in TWICE:
            run = subprocess.run([sys.executable, "-c", here(program)], capture_output=True, text=True, timeout=60)
            assert run.returncode == 0, run.stderr
            assert run.stdout == "hello\n", run.stdout


def the_greeting_s_commands_work_as_printed():
    greeting = Path(os.environ["KEW_DIRECTORY"], "greeting").read_text()
    commands = [line.strip() for line in greeting.splitlines() if line.startswith("  curl")]
    assert commands, greeting
    with tempfile.TemporaryDirectory() as directory:
        for command in commands:
            command = command.replace("curl ", "curl -sS --fail-with-body ", 1)
            run = subprocess.run(["bash", "-c", command], cwd=directory, capture_output=True, text=True, timeout=60)
            assert run.returncode == 0, f"{command}: {run.stdout} {run.stderr}"



def the_example_of_a_webhook_handles_what_its_readme_sends():
    (commands,) = blocks("examples/webhook/README.md", "sh")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    commands = here(commands).replace("8080", port).replace("python3", sys.executable)
    run = subprocess.Popen(
        ["timeout", "60", "bash", "-eu", "-c", commands + "wait"],
        cwd="examples/webhook", stdout=subprocess.PIPE, text=True, start_new_session=True,
    )
    output = ""
    try:
        for line in run.stdout:
            output += line
            if "handled" in line:
                break
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert re.search(r'handled [0-9a-f]{32} attempt \d {"parcel": 7}', output), output
    assert '"success":false' not in output, output


for scenario in (
    the_readme_s_commands_print_what_the_transcript_shows,
    the_readme_s_azure_commands_put_get_and_delete,
    the_readme_s_cloudflare_commands_publish_pull_and_acknowledge,
    the_readme_s_program_runs_as_it_is,
    the_greeting_s_commands_work_as_printed,
    the_example_of_a_webhook_handles_what_its_readme_sends,
):
    try:
        scenario()
        print(f"PASS {scenario.__name__}", flush=True)
    except Exception as error:
        print(f"FAIL {scenario.__name__}: {error!r}", flush=True)
