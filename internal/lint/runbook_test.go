package lint

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	alertsFile  = "../../docs/monitoring/alerts.yml"
	runbookPage = "docs/runbook.md"
	runbookURL  = "https://github.com/forebay/forebay/blob/main/" + runbookPage
)

var (
	alertRule    = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	alertLink    = regexp.MustCompile(`(?m)^ +runbook_url: (\S+)$`)
	alertHeading = regexp.MustCompile(`(?m)^## (Forebay\w+)$`)
	verbInText   = regexp.MustCompile("`forebay ([a-z]+)")
	verbInCode   = regexp.MustCompile(`(?m)^forebay ([a-z]+)`)
	verbDeclared = regexp.MustCompile(`(?m)^\t+\{"([a-z]+)", "`)
)

// runbookProblems compares alert rules with a runbook. Each rule links its section, and each section has a rule. Each section explains the alert, and
// lists the things to look at, to do, and not to do.
func runbookProblems(rules, runbook string) (problems []string) {
	sections := make(map[string]string)
	for part := range strings.SplitSeq(runbook, "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		sections[title] = body
	}
	named := make(map[string]bool)
	at := alertRule.FindAllStringSubmatchIndex(rules, -1)
	for i, m := range at {
		name, end := rules[m[2]:m[3]], len(rules)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		named[name] = true
		link := alertLink.FindStringSubmatch(rules[m[0]:end])
		if want := runbookURL + "#" + anchor(name); link == nil || link[1] != want {
			problems = append(problems, name+": runbook_url must be "+want)
		}
		body, ok := sections[name]
		if !ok {
			problems = append(problems, name+": "+runbookPage+" has no section ## "+name)
			continue
		}
		rest := body
		for _, part := range []string{"\n- **Meaning.** ", "\n- **Look at** ", "\n- **Do** ", "\n- **Do not** "} {
			_, after, found := strings.Cut(rest, part)
			if !found {
				problems = append(problems, name+": its section has no line "+strings.TrimSpace(part)+" in its place")
			}
			rest = after
		}
		// Servers and networks of a cluster are repaired with other programs.
		if !strings.HasPrefix(name, "ForebayCluster") && !strings.Contains(body, "`forebay ") && !strings.Contains(body, "(#why-a-file-waits)") {
			problems = append(problems, name+": its section names no command of forebay, and does not link the section that does")
		}
	}
	for _, m := range alertHeading.FindAllStringSubmatch(runbook, -1) {
		if !named[m[1]] {
			problems = append(problems, "there is no alert rule "+m[1])
		}
	}
	return problems
}

func TestEachAlertHasItsRunbook(t *testing.T) {
	rules, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile("../../" + runbookPage)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(alertRule.FindAll(rules, -1)); n < 19 {
		t.Errorf("%d rules were found, want 19 or more", n)
	}
	for _, p := range runbookProblems(string(rules), string(runbook)) {
		t.Error(p)
	}
}

// The check finds each kind of problem.
func TestRunbookProblems(t *testing.T) {
	const (
		rule    = "      - alert: ForebayA\n        annotations:\n          runbook_url: " + runbookURL + "#forebaya\n"
		section = "# Runbook\n\n## ForebayA\n\n- **Meaning.** M.\n- **Look at** L.\n- **Do** `forebay d`.\n- **Do not** N.\n"
	)
	for _, c := range []struct{ rules, runbook, want string }{
		{rule, section, ""},
		{rule, "# Runbook\n", "has no section"},
		{rule, section + "\n## ForebayB\n", "no alert rule ForebayB"},
		{strings.Replace(rule, "#forebaya", "#forebayb", 1), section, "runbook_url must be"},
		{rule + "      - alert: ForebayB\n", section, "ForebayB: runbook_url must be"},
		{rule, strings.Replace(section, "`forebay d`", "D", 1), "no command"},
		{rule, strings.Replace(section, "- **Do not** N.\n", "", 1), "Do not"},
		{rule, strings.Replace(section, "- **Look at** L.\n", "", 1) + "- **Look at** L.\n", "Do not"},
	} {
		got := strings.Join(runbookProblems(c.rules, c.runbook), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("problems %q, want %q", got, c.want)
		}
	}
}

// Each command `forebay VERB` on a page is one of the program.
func TestCommandsOnPagesExist(t *testing.T) {
	main, err := os.ReadFile("../../cmd/forebay/main.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"help": true, "version": true}
	for _, m := range verbDeclared.FindAllStringSubmatch(string(main), -1) {
		known[m[1]] = true
	}
	if len(known) < 15 {
		t.Fatalf("only %d commands were found", len(known))
	}
	for name, text := range loadTree(t).texts {
		if !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" {
			continue
		}
		for _, m := range append(verbInText.FindAllStringSubmatch(text, -1), verbInCode.FindAllStringSubmatch(text, -1)...) {
			if !known[m[1]] {
				t.Errorf("%s: there is no command forebay %s", name, m[1])
			}
		}
	}
}

var (
	messageRow  = regexp.MustCompile("(?m)^\\| (?:`[^|]*`[^|]*|(?:Debug|Info|Warn|Error)[^|]*\\|[^|]*) \\|")
	messageSpan = regexp.MustCompile("`([a-z][^`]* [^`]*)`")
)

// Each log message on the pages for operators is a text of the code, so that an operator who searches for it finds it.
func TestLogMessagesOnPagesExist(t *testing.T) {
	tr := loadTree(t)
	var code strings.Builder
	for _, f := range tr.files {
		if !f.test {
			code.WriteString(tr.texts[f.path])
		}
	}
	literals, found := code.String(), 0
	for page, title := range map[string]string{"docs/cluster-failures.md": "Log messages"} { // TestLogEvents writes the page of all events
		text, ok := section(tr.texts[page], title)
		if !ok {
			t.Fatalf("%s has no section %q", page, title)
		}
		for _, row := range messageRow.FindAllString(text, -1) {
			for _, m := range messageSpan.FindAllStringSubmatch(row, -1) {
				found++
				for part := range strings.SplitSeq(m[1], "…") {
					if part = strings.Trim(part, " ,"); !strings.Contains(literals, part) {
						t.Errorf("%s: no code has the text %q", page, part)
					}
				}
			}
		}
	}
	if found < 18 {
		t.Errorf("only %d messages were found", found)
	}
}
