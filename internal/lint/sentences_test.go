package lint

import (
	"regexp"
	"strings"
	"testing"
)

var (
	htmlComment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	blockEnd     = regexp.MustCompile(`\n\s*\n|\n(?:- |\d+\. )`)
	listMark     = regexp.MustCompile(`^(?:- |\d+\. )`)
	sentenceEnd  = regexp.MustCompile("[.!?][)*\"]*\\s+([A-Z*\\[(`\"])")
	notASentence = "#|<!["
)

// sentencesOf returns the words of each sentence of a page, without headings, tables and code blocks. A piece of code is one word.
func sentencesOf(page string) (lengths []int) {
	text := htmlComment.ReplaceAllString(codeBlock.ReplaceAllString(page, ""), "")
	for _, block := range blockEnd.Split("\n"+text, -1) {
		block = listMark.ReplaceAllString(strings.TrimSpace(block), "")
		if block == "" || strings.Contains(notASentence, block[:1]) {
			continue
		}
		block = linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(strings.Join(strings.Fields(block), " "), "Code"), "]")
		for _, s := range strings.Split(sentenceEnd.ReplaceAllString(block, ".\n$1"), "\n") {
			if n := len(strings.Fields(s)); n > 2 {
				lengths = append(lengths, n)
			}
		}
	}
	return lengths
}

// Pages for users are prose, neither telegrams nor sentences that must be read twice.
func TestSentences(t *testing.T) {
	const least, most, longest = 14, 18, 45
	sentences, words := 0, 0
	for name, text := range proseParts(loadTree(t))[0] {
		for _, n := range sentencesOf(text) {
			sentences, words = sentences+1, words+n
			if n > longest {
				t.Errorf("%s: a sentence of %d words, at most %d, want at most %v", name, n, longest, longest)
			}
		}
	}
	if mean := float64(words) / float64(sentences); mean < least || mean > most {
		t.Errorf("the sentences of the pages for users have %.2f words on average, want %d to %d: join short ones that belong together, or split long ones", mean, least, most)
	} else {
		t.Logf("%d sentences of %.2f words on average", sentences, mean)
	}
}

func TestSentencesOf(t *testing.T) {
	const page = "# A heading is none\n\nOne two three. Four `a b c` five, six!\n\n- Seven [eight](nine.md) ten.\n- No.\n\n```\nnot this one\n```\n| not | this |\n"
	if got := sentencesOf(page); len(got) != 3 || got[0] != 3 || got[1] != 4 || got[2] != 3 {
		t.Errorf("the sentences have %v words, want [3 4 3]", got)
	}
}
