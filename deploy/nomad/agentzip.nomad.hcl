# AgentZip on every client of a Nomad cluster. docs/installing.md says what the clients' own configuration must allow.
job "agentzip" {
  type        = "system"
  datacenters = ["*"]
  node_pool   = "all"
  # Before the sandboxes' orchestrator, which runs at 50.
  priority    = 90

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  # The pager leaves the task's cgroup only on cgroup v2; on v1 Nomad would kill it with the task.
  constraint {
    attribute = "${attr.os.cgroups.version}"
    value     = "2"
  }

  # One host after the other: each drains first.
  update {
    max_parallel = 1
    stagger      = "1m"
  }

  group "agentzip" {
    # A start takes over the pager that is left. Never give up, or nobody controls it.
    restart {
      attempts = 10
      interval = "5m"
      delay    = "1s"
      mode     = "delay"
    }

    task "agentzip" {
      driver       = "raw_exec"
      user         = "root"
      # SIGTERM drains. The client's max_kill_timeout bounds it, and is 30 s by default.
      kill_signal  = "SIGTERM"
      kill_timeout = "30m"

      config {
        command = "/usr/local/bin/agentzip"
        args    = ["run", "--policy", "${NOMAD_TASK_DIR}/agentzip.yaml"]
      }

      template {
        destination = "local/agentzip.yaml"
        # A restart would drain: the policy is read at the next one.
        change_mode = "noop"
        data        = <<EOF
hosts:
  e2b:
    enabled: true
otel:
  endpoint: http://127.0.0.1:4318
EOF
      }

      # Of the service. The pager's memory is what it saves, and is not counted here.
      resources {
        cpu    = 500
        memory = 512
      }
    }
  }
}
