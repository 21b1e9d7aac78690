"""An agent that lives in its sandbox: asks the model over HTTP, and runs the tools it asks for as child processes.

usage: detect_agent.py HOST PORT SANDBOX TURNS DAEMON(0|1)
Begins when it reads a line. Prints a line of JSON for each tool: its start and end on CLOCK_MONOTONIC, in ns.
"""

import http.client
import json
import subprocess
import sys
import time

PROMPT_BYTES = 8000
TURN_BYTES = 2000
POST_BYTES = 3000
PYTHON = [sys.executable, '-S', '-c']
COMPUTE = 'import sys, time\nend = time.process_time() + float(sys.argv[1]) / 1000\nwhile time.process_time() < end: pass'
DAEMON = 'import time\nwhile True: time.sleep(0.2)'
TOOLS = {
    'compute': lambda ms: PYTHON + [COMPUTE, str(ms)],
    'wait': lambda ms: ['/bin/sleep', str(ms / 1000)],
    'shell': lambda ms: ['/bin/sh', '-c', f'ls / >/dev/null; sleep {ms / 1000}; true'],
}


class Agent:
    def __init__(self, host, port, sandbox):
        self.address = (host, port)
        self.sandbox = sandbox
        self.connection = None

    def post(self, path, message):
        """An answer, on the connection that is open if the server has kept it."""
        body = json.dumps({'sandbox': self.sandbox, **message})
        for fresh in (False, True):
            if self.connection is None or fresh:
                self.hang_up()
                self.connection = http.client.HTTPConnection(*self.address, timeout=300)
            try:
                self.connection.request('POST', path, body, {'content-type': 'application/json'})
                return self.connection.getresponse()
            except (ConnectionError, http.client.RemoteDisconnected):
                if fresh:
                    raise
        return None

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def ask(self, turn):
        history = 'x' * (PROMPT_BYTES + turn * TURN_BYTES)
        calls = []
        answer = self.post('/v1/messages', {'turn': turn, 'messages': history})
        for line in answer:
            if line.startswith(b'data: {'):
                calls = json.loads(line[len('data: ') :]).get('calls', calls)
        return calls

    def report(self):
        """What agents tell their makers, at the model's own address; answered at once."""
        self.post('/v1/telemetry', {'turn': -1, 'events': 'y' * POST_BYTES}).read()

    def run(self, calls):
        for call in calls:
            start = time.monotonic_ns()
            subprocess.run(TOOLS[call['tool']](**call['args']), check=True)
            print(json.dumps({'start': start, 'end': time.monotonic_ns()}), flush=True)


def main(host, port, sandbox, turns, daemon):
    agent = Agent(host, int(port), sandbox)
    background = subprocess.Popen(PYTHON + [DAEMON]) if daemon == '1' else None
    print('ready', flush=True)
    sys.stdin.readline()
    for turn in range(int(turns)):
        calls = agent.ask(turn)
        if turn % 2 == 1:
            agent.report()
        if turn % 3 == 2:
            agent.hang_up()
        agent.run(calls)
    if background is not None:
        background.kill()
        background.wait()


main(*sys.argv[1:])
