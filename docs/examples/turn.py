#!/usr/bin/env python3
"""One turn of an agent, told to AgentZip with nothing but the standard library: turn.py SANDBOX PID"""

import http.client
import json
import os
import socket
import sys


class AgentZip(http.client.HTTPConnection):
    """The control socket. Not thread safe: use one a thread."""

    def __init__(self, path):
        super().__init__("agentzip", timeout=600)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def call(self, method, path, body=None):
        headers = {} if body is None else {"content-type": "application/json"}
        self.request(method, path, None if body is None else json.dumps(body), headers)
        response = self.getresponse()
        text = response.read()
        answer = json.loads(text) if text else None
        if response.status >= 400:
            error = answer["error"]
            raise RuntimeError(f"{error['code']}: {error['message']}; remedy: {error['remedy']}")
        return answer


def main(name, pid):
    agentzip = AgentZip(os.environ.get("AGENTZIP_SOCKET", "/run/agentzip/agentzip.sock"))
    box = f"/v1/sandboxes/{name}"
    agentzip.call("PUT", box, {"pids": [int(pid)], "tenant": "acme"})
    agentzip.call("POST", f"{box}/events", {"type": "llm_request_sent", "model": "large"})
    # … the model is asked here; when its first token comes:
    agentzip.call("POST", f"{box}/events", {"type": "llm_first_token"})
    # … when its answer is complete, with the name of the tool that it calls:
    agentzip.call("POST", f"{box}/events", {"type": "llm_response_end", "tool": "bash"})
    status = agentzip.call("GET", box)
    print(json.dumps({key: status[key] for key in ("id", "phase", "ownedBytes", "ratio")}))
    agentzip.call("DELETE", box)


if __name__ == "__main__":
    main(*sys.argv[1:])
