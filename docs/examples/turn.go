// One turn of an agent, told to AgentZip: go run turn.go SANDBOX PID
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
)

var socket = func() string {
	if path := os.Getenv("AGENTZIP_SOCKET"); path != "" {
		return path
	}
	return "/run/agentzip/agentzip.sock"
}()

var client = http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	},
}}

// call answers the body, and ends the program with code and remedy when AgentZip refuses.
func call(method, path, body string) string {
	request, err := http.NewRequest(method, "http://agentzip"+path, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	if body != "" {
		request.Header.Set("content-type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode >= 400 {
		var refused struct {
			Error struct{ Code, Message, Remedy string }
		}
		_ = json.Unmarshal(text, &refused)
		log.Fatalf("%s: %s; remedy: %s", refused.Error.Code, refused.Error.Message, refused.Error.Remedy)
	}
	return string(text)
}

func main() {
	box, pid := "/v1/sandboxes/"+os.Args[1], os.Args[2]
	call("PUT", box, `{"pids": [`+pid+`], "tenant": "acme"}`)
	call("POST", box+"/events", `{"type": "llm_request_sent", "model": "large"}`)
	// … the model is asked here; when its first token comes:
	call("POST", box+"/events", `{"type": "llm_first_token"}`)
	// … when its answer is complete, with the name of the tool that it calls:
	call("POST", box+"/events", `{"type": "llm_response_end", "tool": "bash"}`)
	fmt.Print(call("GET", box, ""))
	call("DELETE", box, "")
}
