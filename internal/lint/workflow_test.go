package lint

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A stage that the workflow of the public host leaves out runs on the machine of its author alone.
func TestWorkflowRunsEveryStage(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	script, workflow := read(".ci/run"), read(".github/workflows/ci.yml")
	stages := func(list string) []string {
		found := regexp.MustCompile(`(?m)^` + list + `_stages=\((.*?)\)`).FindStringSubmatch(script)
		if found == nil {
			t.Fatalf(".ci/run has no list of %s stages", list)
		}
		return strings.Fields(found[1])
	}
	matrix := regexp.MustCompile(`stage: \[(.*)\]`).FindAllStringSubmatch(workflow, -1)
	if len(matrix) != 2 {
		t.Fatalf("the workflow has %d lists of stages, want one of the gate and one of the nightly run", len(matrix))
	}
	gate, night := strings.Split(matrix[0][1], ", "), strings.Split(matrix[1][1], ", ")
	for _, stage := range append(stages("gate"), "heavy") {
		if !slices.Contains(gate, stage) {
			t.Errorf("the gate of the workflow does not have the stage %s of .ci/run", stage)
		}
	}
	for _, stage := range stages("nightly") {
		if !slices.Contains(night, stage) && !strings.Contains(workflow, ".ci/run "+stage+"\n") {
			t.Errorf("the nightly run of the workflow does not have the stage %s of .ci/run", stage)
		}
	}
}
