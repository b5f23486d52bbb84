package platform

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/storageapi"
)

// input is the body of a call. JSON and forms look the same from here on. Each accessor notes the faults of its field, and err
// returns all of them. Only input checks the form of requests.
type input struct {
	fields     map[string]json.RawMessage
	violations []violation
	// code is the error code, unless a violation brings its own.
	code string
	// list says that the body was [], which is how some clients write that there are no fields.
	list bool
}

type violation struct {
	storageapi.Violation
	code string
}

// maxBody fits the largest configuration and state in the longest form encoding.
const maxBody = 32 << 20

// maxContent is the limit of a configuration and of a state.
const maxContent = 4 << 20

func readInput(w http.ResponseWriter, r *http.Request) (*input, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, refuse(http.StatusRequestEntityTooLarge, "validation.bodyTooLarge", "The body has more than %d bytes", maxBody)
		}
		return nil, refuse(http.StatusBadRequest, "validation.body", "The body could not be read")
	}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		return readMultipart(data, params["boundary"])
	}
	return parseInput(kind, data)
}

const formMedia = "application/x-www-form-urlencoded"

// parseInput reads a body of a media type.
func parseInput(kind string, data []byte) (*input, error) {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return &input{}, nil
	}
	if kind == formMedia || kind == "" && trimmed[0] != '{' && trimmed[0] != '[' {
		if json.Valid(trimmed) && trimmed[0] == '{' {
			// As a form it would be one field of a strange name, ignored like every unknown one.
			return nil, refuse(http.StatusBadRequest, "validation.body", "The body is JSON, its Content-Type says that it is a form: send application/json")
		}
		values, err := url.ParseQuery(string(trimmed))
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "validation.body", "The form is malformed")
		}
		return formInput(values)
	}
	if isEmptyArray(trimmed) {
		return &input{list: true}, nil
	}
	in := &input{}
	if !utf8.Valid(trimmed) || kindOf(trimmed) != '{' || json.Unmarshal(trimmed, &in.fields) != nil {
		return nil, notAnObject()
	}
	return in, nil
}

func notAnObject() error {
	return refuse(http.StatusBadRequest, "validation.body", "The body is not a JSON object")
}

// formInput makes nested values of fields such as "a[b][0]".
func formInput(values url.Values) (*input, error) {
	root := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range values[name] {
			if !utf8.ValidString(name) || !utf8.ValidString(value) {
				return nil, refuse(http.StatusBadRequest, "validation.body", "The form is not UTF-8")
			}
			if !setField(root, fieldPath(name), value) {
				return nil, refuse(http.StatusBadRequest, "validation.body", "The form field %q contradicts a different one", cut(name, 80))
			}
		}
	}
	in := &input{fields: make(map[string]json.RawMessage, len(root))}
	for name, value := range root {
		data, err := jsontext.Marshal(arrays(value))
		if err != nil {
			return nil, err
		}
		in.fields[name] = data
	}
	return in, nil
}

// fieldPath splits "a[b][]" into "a", "b", "".
func fieldPath(name string) []string {
	head, rest, nested := strings.Cut(name, "[")
	if !nested || !strings.HasSuffix(rest, "]") || strings.Count(name, "[") > maxFieldDepth {
		return []string{name}
	}
	return append([]string{head}, strings.Split(strings.TrimSuffix(rest, "]"), "][")...)
}

const maxFieldDepth = 16

func setField(node map[string]any, path []string, value string) bool {
	name := path[0]
	name = cmp.Or(name, strconv.Itoa(len(node)))
	if len(path) == 1 {
		if _, nested := node[name].(map[string]any); nested {
			return false
		}
		node[name] = value // the last one of a name wins
		return true
	}
	child, ok := node[name].(map[string]any)
	if !ok {
		if _, taken := node[name]; taken {
			return false
		}
		child = make(map[string]any)
		node[name] = child
	}
	return setField(child, path[1:], value)
}

// arrays turns objects whose names are 0 to n-1 into arrays.
func arrays(value any) any {
	node, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for name, child := range node {
		node[name] = arrays(child)
	}
	list := make([]any, len(node))
	for i := range list {
		child, ok := node[strconv.Itoa(i)]
		if !ok {
			return node
		}
		list[i] = child
	}
	return list
}

// cut shortens a text of a request for a message.
func cut(s string, n int) string { return textcut.Short(s, n) }

// fail notes that a field is wrong.
func (in *input) fail(name, format string, args ...any) { in.failCode("", name, format, args...) }

// failCode is fail with an own error code. A repeated violation is noted once.
func (in *input) failCode(code, name, format string, args ...any) {
	v := violation{storageapi.Violation{Key: name, Message: fmt.Sprintf(format, args...)}, code}
	if !slices.Contains(in.violations, v) {
		in.violations = append(in.violations, v)
	}
}

// err returns the error of everything that is wrong, or nil.
func (in *input) err() error {
	if len(in.violations) == 0 {
		return nil
	}
	e := &apiError{status: http.StatusBadRequest, code: in.code}
	var texts []string
	for _, v := range in.violations {
		if v.code != "" && e.code == in.code {
			e.code = v.code
		}
		e.violations = append(e.violations, v.Violation)
		texts = append(texts, v.Key+": "+v.Message)
	}
	e.message = "Invalid parameters: " + strings.Join(texts, "; ")
	return e
}

// has reports whether the field was sent, and is not null.
func (in *input) has(name string) bool {
	raw, ok := in.fields[name]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// text returns a text field, or nil if it was not sent. A number is taken for its digits.
func (in *input) text(name string) *string {
	if !in.has(name) {
		return nil
	}
	var s storageapi.ID
	if s.UnmarshalJSON(in.fields[name]) != nil {
		in.fail(name, "want a string")
		return nil
	}
	return (*string)(&s)
}

func (in *input) textOr(name, fallback string) string {
	if s := in.text(name); s != nil {
		return *s
	}
	return fallback
}

// required is a text field that must be there and not be empty.
func (in *input) required(name string) string {
	before := len(in.violations)
	s := in.textOr(name, "")
	if s == "" && len(in.violations) == before {
		in.fail(name, "This value should not be blank.")
	}
	return s
}

// flag returns a boolean field, or nil if it was not sent.
func (in *input) flag(name string) *bool {
	if !in.has(name) {
		return nil
	}
	text := strings.ToLower(strings.Trim(string(in.fields[name]), `"`))
	b, ok := parseFlag(text)
	if !ok {
		in.fail(name, "want true or false")
		return nil
	}
	return &b
}

func (in *input) flagOr(name string, fallback bool) bool {
	if b := in.flag(name); b != nil {
		return *b
	}
	return fallback
}

func parseFlag(text string) (value, ok bool) {
	switch text {
	case "true", "1":
		return true, true
	case "false", "0", "":
		return false, true
	}
	return false, false
}

// integer returns a whole number, which may be sent as text, or nil if the field is absent.
func (in *input) integer(name string) *int64 {
	if !in.has(name) {
		return nil
	}
	n, err := strconv.ParseInt(strings.Trim(string(in.fields[name]), `"`), 10, 64)
	if err != nil {
		in.fail(name, "want a whole number")
		return nil
	}
	return &n
}

// texts returns a list of texts, which may be sent as JSON text. The result given is false if the field is absent.
func (in *input) texts(name string) (list []string, given bool) {
	if !in.has(name) {
		return nil, false
	}
	var ids []storageapi.ID
	raw := unquoted(in.fields[name])
	if kindOf(raw) != '[' || json.Unmarshal(raw, &ids) != nil {
		in.fail(name, "want an array of strings")
		return nil, true
	}
	list = make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id)
	}
	return list, true
}

// content returns a field that is a JSON object or array, or the text of one, without white space between tokens and
// otherwise unchanged. It is nil if the field is absent or null. code is the error code for text that is not JSON.
func (in *input) content(name, code string) json.RawMessage {
	if !in.has(name) {
		return nil
	}
	raw := bytes.TrimSpace(unquoted(in.fields[name]))
	if string(raw) == "null" { // how some clients write content that they do not have in a form
		return nil
	}
	var b bytes.Buffer
	switch err := json.Compact(&b, raw); {
	case len(raw) == 0:
		in.failCode(code, name, "This value should not be blank: want a JSON object")
	case err != nil:
		in.failCode(code, name, "want a JSON object, got no JSON: %s", jsonFault(raw))
	case raw[0] != '{' && raw[0] != '[':
		in.failCode(code, name, "want a JSON object, got %s", cut(string(raw), 40))
	case !utf8.Valid(raw):
		in.failCode(code, name, "want a JSON object in UTF-8")
	case len(raw) > maxContent:
		in.fail(name, "has %d bytes, at most %d are stored", len(raw), maxContent)
	default:
		return b.Bytes()
	}
	return nil
}

// object is content that is an object. [] stands for an empty object, which is how some clients write one.
func (in *input) object(name, code string) json.RawMessage {
	raw := in.content(name, code)
	if kindOf(raw) == '[' && !isEmptyArray(raw) {
		in.failCode(code, name, "want a JSON object, got an array: %s", cut(string(raw), 40))
		return nil
	}
	return raw
}

// notNull notes fields that are null in JSON. In a change null could mean that the value stays or that it goes. In a form
// the text null is how some clients write a value that they do not have.
func (in *input) notNull(name, code string) {
	if string(in.fields[name]) == "null" {
		in.failCode(code, name, "want a JSON object, got null: leave it out to keep the value, send {} to empty it")
	}
}

// configuration returns the content of a configuration or a row, without the nodes that exist at run time alone, or nil if it
// was not sent, or is null.
func (in *input) configuration() json.RawMessage {
	return withoutRunNodes(in.object("configuration", badConfiguration))
}

// unquoted returns the text of a field that is a JSON string, and any other field as it is. Nested fields of a form are
// such texts.
func unquoted(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return json.RawMessage(text)
	}
	return raw
}

// jsonFault describes the fault in malformed JSON, and its place.
func jsonFault(raw json.RawMessage) string {
	err := json.Unmarshal(raw, new(json.RawMessage))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%s at byte %d", syntax.Error(), syntax.Offset)
	}
	return "malformed"
}

// lacks reports whether none of the fields was sent.
func (in *input) lacks(names ...string) bool { return !slices.ContainsFunc(names, in.has) }

// decode reads a nested field, or one that is the JSON text of it, into v.
func (in *input) decode(name string, v any, want string) {
	if in.has(name) && json.Unmarshal(unquoted(in.fields[name]), v) != nil {
		in.fail(name, "want %s", want)
	}
}

// only notes every field that is not one of the names.
func (in *input) only(names ...string) {
	for name := range in.fields {
		if !slices.Contains(names, name) {
			in.fail(cut(name, 80), "This field was not expected.")
		}
	}
}

// name checks that a field that was sent has the form of the name of a bucket or table.
func (in *input) name(field, value string) {
	if value != "" && !validName.MatchString(value) {
		in.fail(field, "want 1 to 96 letters, digits, dashes and underscores")
	}
}

var errForm = refuse(http.StatusBadRequest, "validation.body", "The form is malformed, or carries a file")

// readMultipart reads a form whose fields are parts. Files in it are refused, because they are uploaded to the object store.
func readMultipart(data []byte, boundary string) (*input, error) {
	return readParts(bytes.NewReader(data), boundary, maxBody, func(*multipart.Part) (bool, error) { return false, nil })
}

// readParts reads a multipart form, whose fields have less than limit bytes. take reads the parts that are no fields, and
// reports which these are.
func readParts(r io.Reader, boundary string, limit int64, take func(p *multipart.Part) (taken bool, err error)) (*input, error) {
	if boundary == "" {
		return nil, errForm
	}
	values := url.Values{}
	parts := multipart.NewReader(r, boundary)
	for size := int64(0); ; {
		p, err := parts.NextPart()
		if err == io.EOF {
			return formInput(values)
		}
		if err != nil {
			return nil, errForm
		}
		if taken, err := take(p); err != nil {
			return nil, err
		} else if taken {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(p, limit))
		if size += int64(len(value)); err != nil || size >= limit || p.FileName() != "" {
			return nil, errForm
		}
		values.Add(p.FormName(), string(value))
	}
}
