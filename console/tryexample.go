package console

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// exampleOf is a JSON body that columns take, so that a playground begins with a row in place of errors. Templates may still miss something.
func exampleOf(columns mapping.Columns, telemetry bool) string {
	body := make(map[string]any)
	for _, c := range columns {
		if c.Type != mapping.TypePath || c.Path == "" {
			continue
		}
		steps := pathStep.FindAllString(c.Path, -1)
		if telemetry {
			steps = []string{c.Path} // a record is flat
		}
		put(body, steps, exampleValue(c))
	}
	if len(body) == 0 {
		body["event"] = "example"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(body); err != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}

// pathStep is a name or an index of a path.
var pathStep = regexp.MustCompile(`[^.\[\]]+|\[[0-9]+\]`)

// maxExampleIndex bounds the arrays of an example.
const maxExampleIndex = 20

// put sets a value at a path, unless something else is there.
func put(at map[string]any, steps []string, value any) {
	if len(steps) == 0 {
		return
	}
	// rest is the value below the first step.
	var rest func(there any, steps []string) any
	rest = func(there any, steps []string) any {
		if len(steps) == 0 {
			if there != nil {
				return there
			}
			return value
		}
		if index, ok := strings.CutPrefix(steps[0], "["); ok {
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			list, isList := there.([]any)
			if err != nil || i > maxExampleIndex || there != nil && !isList {
				return there
			}
			for len(list) <= i {
				list = append(list, nil)
			}
			list[i] = rest(list[i], steps[1:])
			return list
		}
		inner, isObject := there.(map[string]any)
		if there != nil && !isObject {
			return there
		}
		if inner == nil {
			inner = make(map[string]any)
		}
		inner[steps[0]] = rest(inner[steps[0]], steps[1:])
		return inner
	}
	at[steps[0]] = rest(at[steps[0]], steps[1:])
}

func exampleValue(c mapping.Column) any {
	switch base, _, _ := strings.Cut(string(c.DataType), "("); datatype.Type(base) {
	case datatype.Bool:
		return true
	case datatype.Int64:
		return 42
	case datatype.Float64, "decimal":
		return 1.5
	case datatype.Timestamp:
		return "2026-01-31T12:00:00Z"
	case datatype.Date:
		return "2026-01-31"
	case datatype.UUID:
		return "018f2c3e-7b1a-7c4d-9e5f-0123456789ab"
	case datatype.JSON:
		return map[string]any{"key": "value"}
	case datatype.Bytes:
		return "aGVsbG8="
	}
	return "text"
}
