#!/bin/sh
# One turn of an agent, told to AgentZip with curl: turn.sh SANDBOX PID
set -eu
socket=${AGENTZIP_SOCKET:-/run/agentzip/agentzip.sock}
box=http://agentzip/v1/sandboxes/$1

# --fail-with-body: the answer names the error's code and remedy, and the script ends with 22.
ask() { curl -sS --fail-with-body --unix-socket "$socket" -H 'content-type: application/json' "$@"; }

ask -X PUT "$box" -d "{\"pids\": [$2], \"tenant\": \"acme\"}"
ask -X POST "$box/events" -d '{"type": "llm_request_sent", "model": "large"}'
# … the model is asked here; when its first token comes:
ask -X POST "$box/events" -d '{"type": "llm_first_token"}'
# … when its answer is complete, with the name of the tool that it calls:
ask -X POST "$box/events" -d '{"type": "llm_response_end", "tool": "bash"}'
ask "$box"
ask -X DELETE "$box"
