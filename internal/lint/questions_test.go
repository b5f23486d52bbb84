package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// A question is a question of a reader of README.md. Its answer is at most two links away.
type question struct {
	ask string
	// link is in README.md. If it does not lead to page and heading, its section, or its whole page without a section, has a link that does.
	link string
	// page and heading say where the answer is.
	page, heading string
	// says are words in the section of the heading.
	says []string
}

var questions = []question{
	{"add a column", "docs/columns.md#add-a-column", "docs/columns.md", "Add a column", []string{"extend", "Then add the column"}},
	{"the database is down for an hour", "docs/database-down.md", "docs/database-down.md", "The table's database is down", []string{"Do nothing"}},
	{"for how long is nothing safe", "docs/database-down.md", "docs/database-down.md", "How long you can wait", []string{"-max-disk-bytes", "7 days"}},
	{"rotate a secret", "docs/operations.md#rotate-a-secret", "docs/operations.md", "Rotate a secret", []string{"oldSecretUntil", "rotate-secret", "OldSecret"}},
	{"size the disk", "docs/deploy.md#disk-and-memory", "docs/deploy.md", "Disk and memory", []string{"0.75", "-max-disk-bytes  =", "forebay size -rate"}},
	{"upgrade", "docs/upgrades.md#to-the-next-release", "docs/upgrades.md", "To the next release", []string{"Replace the program"}},
	{"delete a person's data", "docs/erase.md", "docs/erase.md", "Delete a person's data", []string{"quarantine", "archive", "tables"}},

	{"why is this sink blocked", operators, "docs/runbook.md", "Why a file waits", []string{"forebay files list"}},
	{"is anything lost", operators, "docs/operations.md", "Is anything lost", []string{"forebay.rows.expired", "forebay.rows.damaged"}},
	{"what does this alert want", operators, "docs/runbook.md", "Runbook", []string{"alerts.yml"}},
	{"how do I move the data directory", operators, "docs/operations.md", "Move the data directory", []string{"SIGTERM", "-dir"}},
	{"how do I restore", operators, "docs/operations.md", "Back up and restore", []string{"To restore"}},
	{"how do I drain before a shutdown", operators, "docs/operations.md", "Drain before a shutdown", []string{"-shutdown-timeout"}},
	{"why is a row missing", operators, "docs/operations.md", "Why is a row missing", []string{"response", "quarantine"}},
	{"why is a row late", operators, "docs/operations.md", "Why is a row late", []string{"forebay.rows.age"}},
	{"why is a row there twice", operators, "docs/reliability.md", "Exactly once", []string{"twice", "Idempotency-Key"}},
	{"what did this deployment change", operators, "docs/operations.md", "What did a deployment change", []string{"forebay check"}},

	{"where do I begin to change it", "CONTRIBUTING.md", "docs/internals.md", "Where to begin", []string{"makes a first change"}},
	{"how do I reproduce a lost row", "CONTRIBUTING.md", "docs/internals.md", "When a row is wrong, missing or stored twice", []string{"ledger", "-verify"}},
}

const operators = "docs/operations.md#questions"

// minuteOfWords is how many words a reader of technical text reads in a minute.
const minuteOfWords = 200

// section returns the text below a heading of a page, up to the next heading of its level, and whether there is such a heading.
func section(text, title string) (string, bool) {
	var b strings.Builder
	level, fenced := 0, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if rest := strings.TrimLeft(line, "#"); !fenced && len(rest) < len(line) && strings.HasPrefix(rest, " ") {
			depth := len(line) - len(rest)
			if level > 0 && depth <= level {
				break
			}
			if strings.TrimSpace(rest) == title {
				level = depth
				continue
			}
		}
		if level > 0 {
			b.WriteString(line)
		}
	}
	return b.String(), level > 0
}

// linksOf returns the targets of the links in a text of a page, as pages from the root, with their sections.
func linksOf(name, text string) (links []string) {
	for _, m := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file, at, found := strings.Cut(m[1], "#")
		if file == "" {
			file = name
		} else {
			file = path.Join(path.Dir(name), file)
		}
		if found {
			file += "#" + at
		}
		links = append(links, file)
	}
	return links
}

// reached follows links from README.md to the section of a question.
func reached(texts map[string]string, q question) error {
	if !slices.Contains(linksOf("README.md", texts["README.md"]), q.link) {
		return fmt.Errorf("README.md has no link to %s", q.link)
	}
	text, found := section(texts[q.page], q.heading)
	if !found {
		return fmt.Errorf("%s has no heading %q", q.page, q.heading)
	}
	for _, word := range q.says {
		before, _, found := strings.Cut(text, word)
		if !found {
			return fmt.Errorf("%s does not say %q below %q", q.page, word, q.heading)
		}
		if n := len(strings.Fields(before)); n > minuteOfWords {
			return fmt.Errorf("%s says %q %d words below %q, want at most %d: a reader looks for a minute", q.page, word, n, q.heading, minuteOfWords)
		}
	}
	title, _, _ := strings.Cut(strings.TrimPrefix(texts[q.page], "# "), "\n")
	ends := []string{q.page + "#" + anchor(q.heading)}
	if title == q.heading {
		ends = append(ends, q.page)
	}
	if slices.Contains(ends, q.link) {
		return nil
	}
	file, at, _ := strings.Cut(q.link, "#")
	from := texts[file]
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(from, ""), -1) {
		if anchor(m[1]) == at {
			from, _ = section(texts[file], m[1])
			break
		}
	}
	if file == q.page && at == "" { // a heading further down on the page of the link
		return nil
	}
	for _, link := range linksOf(file, from) {
		if slices.Contains(ends, link) {
			return nil
		}
	}
	return fmt.Errorf("%s has no link to %s", q.link, ends[0])
}

// The section of each question is at most two links from README.md, and answers within the first minute.
func TestQuestionsAreTwoClicksAway(t *testing.T) {
	texts := loadTree(t).texts
	for _, q := range questions {
		if err := reached(texts, q); err != nil {
			t.Errorf("%s: got %v, want no error", q.ask, err)
		}
	}
}

// The walk finds a missing link, heading and word.
func TestAnswered(t *testing.T) {
	texts := map[string]string{
		"README.md": "# R\n\n[a](docs/a.md#one) [b](docs/b.md)\n",
		"docs/a.md": "# A\n\n## One\n\n[x](#two) [b](b.md#three)\n\n## Two\n\nSays it.\n\n## Four\n\nSays it.\n",
		"docs/b.md": "# B\n\nText.\n\n## Three\n\nSays it.\n\n## Long\n\n" + strings.Repeat("word ", minuteOfWords+1) + "says it.\n",
	}
	for _, c := range []struct {
		q    question
		want string
	}{
		{question{link: "docs/b.md", page: "docs/b.md", heading: "B", says: []string{"Text"}}, ""},
		{question{link: "docs/b.md", page: "docs/b.md", heading: "Three", says: []string{"Says"}}, ""},
		{question{link: "docs/a.md#one", page: "docs/a.md", heading: "Two", says: []string{"Says"}}, ""},
		{question{link: "docs/a.md#one", page: "docs/b.md", heading: "Three"}, ""},
		{question{link: "docs/a.md#one", page: "docs/a.md", heading: "Four"}, "no link to docs/a.md#four"},
		{question{link: "docs/a.md", page: "docs/a.md", heading: "Two"}, "README.md has no link"},
		{question{link: "docs/b.md", page: "docs/b.md", heading: "Five"}, "no heading"},
		{question{link: "docs/b.md", page: "docs/b.md", heading: "Three", says: []string{"No"}}, "does not say"},
		{question{link: "docs/b.md", page: "docs/b.md", heading: "Long", says: []string{"says"}}, "a reader looks for a minute"},
	} {
		switch err := reached(texts, c.q); {
		case c.want == "" && err != nil:
			t.Errorf("%+v: got %v, want no error", c.q, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %+v: %v, want %q", c.q, err, c.want)
		}
	}
}
