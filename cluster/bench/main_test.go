package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if env := os.Getenv(jobEnv); env != "" {
		os.Exit(exitCode(runJob(context.Background(), env, os.Stdin, os.Stdout)))
	}
	os.Exit(m.Run())
}

// Each scenario runs to its end, counts the rows that it has stored, and has all its figures.
func TestRun(t *testing.T) {
	for name, want := range map[string][]string{
		"cluster/acknowledged":          {"rows_per_s", "engine_rows_per_s", "publish_rows_per_s", "of_engine", "of_publish", "p50_of_engine", "cpu_ns_per_row"},
		"cluster/adoption":              {"silent_s", "restore_s", "restore_s_per_gb", "drain_s", "rows"},
		"cluster/keys/nodes=3":          {"rows_per_s", "bynode_rows_per_s", "of_bynode", "questions_per_s", "keys_per_question"},
		"cluster/scale/nodes=1":         {"rows_per_s", "engine_rows_per_s", "log_rows_per_s", "of_limit", "bytes_per_row"},
		"cluster/scale/nodes=3":         {"server_in_per_byte", "server_out_per_byte", "server_written_per_byte", "server_cpu_ms_per_mb", "log_bytes_per_s"},
		"cluster/idle/inside/sinks=100": {"node_cpu_percent", "node_rss_mb", "engine_cpu_percent", "engine_rss_mb"},
		"cluster/idle/beside/sinks=1":   {"node_cpu_percent", "node_rss_mb", "server_cpu_percent", "server_rss_mb", "server_alone_cpu_percent"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			args := []string{"-run", "^" + name + "$", "-duration", "300ms", "-settle", "100ms", "-rounds", "1", "-mb", "4", "-dir", t.TempDir(), "-json"}
			if err := run(t.Context(), args, &out); err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(out.String()), &fields); err != nil || fields["scenario"] != name {
				t.Fatalf("got %v, %s, want no error and fields[\"scenario\"] == %v", err, out.String(), name)
			}
			for _, field := range want {
				if v, ok := fields[field].(float64); !ok || v <= 0 {
					t.Errorf("%s is %v, want a figure: %s", field, fields[field], out.String())
				}
			}
		})
	}
}

// A missed goal is a verdict, not an error.
func TestVerdicts(t *testing.T) {
	r := report{scenario: scenario{goals: []goal{{"a", 2, false}, {"a", 2, true}, {"b", 2, false}}}, figures: map[string]float64{"a": 3, "b": 1}}
	var met []bool
	for _, v := range r.verdicts() {
		met = append(met, v.Met)
	}
	if len(met) != 3 || !met[0] || met[1] || met[2] {
		t.Errorf("3 of at least 2, 3 of at most 2, 1 of at least 2 = %v", met)
	}
}
