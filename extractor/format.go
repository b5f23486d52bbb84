package extractor

import (
	"context"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// answerFormat says how the answers of a job are read. The zero value is JSON.
type answerFormat struct{}

func (f *answerFormat) String() string { return "JSON" }

// parse reads an answer. More than most members of objects are an error.
func (f *answerFormat) parse(ctx context.Context, body string, most int) (tree.Node, error) {
	return tree.ParseText(ctx, body, most)
}
