package platform_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// The files of testdata/contract are the contract of the API, requests and the responses that clients rely on. Each file is
// replayed by raw HTTP against a new server, so that no client of ours stands between. A file consists of steps that are
// separated by blank lines. A line that begins with "#" is a comment. There are these kinds of steps:
//
//	file NAME [OPTIONS]         makes a file of the project; its id is ${NAME}. The option gz compresses it.
//	first line
//	...
//
//	slices ID [OPTIONS]         reads the slices of a file, which are as follows. With the option gz they are compressed.
//	first line
//	...
//
//	METHOD /path                makes a request
//	Header: value               any number of these
//	{"body": ...}               a body, which is a form if Content-Type says so and JSON otherwise
//	-> 200                      the status; "-> 202 success" then waits for the job of the response and checks the job instead
//	{"expected": ...}           the expected response, or
//	| text                      the exact text of the response
//
// An expected object needs to have the members that are named, an expected array all elements in order. An array that
// begins with "<has>" needs to contain its other elements. "<absent>" stands for a member that must not be there, "<any>" for any
// value, "<number>", "<string>", "<time>" for one of that kind, "<empty>" for null, [], {} or "", and "<NAME=>" for any value, which is
// kept as ${NAME} for the requests and expectations that follow.
//
// Each request and its response must also be as the OpenAPI documents of the server describe them, and every operation that they
// describe must be in the contract.
func TestContract(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/contract/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no contract: %v", err)
	}
	api := newDescriptions()
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			c := newContract(t, api)
			for _, s := range splitSteps(string(data)) {
				c.play(t, name, s)
			}
		})
	}
	if t.Failed() {
		return
	}
	for _, operation := range api.unused() {
		t.Errorf("the contract has no successful request for %s", operation)
	}
}

// contract replays the steps of one file.
type contract struct {
	*world
	api  *descriptions
	vars map[string]string
}

func newContract(t *testing.T, api *descriptions) *contract {
	w := newWorld(t, func(o *platform.Options) {
		o.Components = []platform.Component{{
			Component: storageapi.Component{ID: "echo", Type: "application"},
			Runner:    platform.RunnerFunc(func(context.Context, *platform.Run) error { return nil }),
		}}
	})
	api.read(t, w)
	return &contract{w, api, map[string]string{"HOST": w.http.URL, "TOKEN": masterToken}}
}

// step is one step of a contract and the number of its first line.
type step struct {
	line  int
	lines []string
}

func splitSteps(text string) (steps []step) {
	var s step
	for i, line := range append(strings.Split(text, "\n"), "") {
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "" && len(s.lines) > 0:
			steps, s = append(steps, s), step{}
		case line != "":
			if len(s.lines) == 0 {
				s.line = i + 1
			}
			s.lines = append(s.lines, line)
		}
	}
	return steps
}

var (
	variable   = regexp.MustCompile(`\$\{(\w+)\}`)
	headerLine = regexp.MustCompile(`^([A-Za-z][\w-]*): (.*)$`)
)

func (c *contract) expand(t *testing.T, text string) string {
	return variable.ReplaceAllStringFunc(text, func(ref string) string {
		value, ok := c.vars[ref[2:len(ref)-1]]
		if !ok {
			t.Fatalf("nothing was kept as %s", ref)
		}
		return value
	})
}

func (c *contract) play(t *testing.T, file string, s step) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Fatalf("got %s:%d: %s, want !t.Failed()", file, s.line, strings.Join(s.lines, "\n"))
		}
	}()
	for i := range s.lines {
		s.lines[i] = c.expand(t, s.lines[i])
	}
	if words := strings.Fields(s.lines[0]); words[0] == "file" {
		c.makeFile(words[1], words[2:], strings.Join(s.lines[1:], "\n")+"\n")
		return
	} else if words[0] == "slices" {
		c.compareSlices(t, words[1], slices.Contains(words[2:], "gz"), s.lines[1:])
		return
	}
	arrow := slices.IndexFunc(s.lines, func(l string) bool { return strings.HasPrefix(l, "-> ") })
	if arrow < 0 {
		t.Fatal("the step has no line with the status")
	}
	got := c.request(t, s.lines[:arrow])
	var status int
	var end string
	if n, err := fmt.Sscanf(s.lines[arrow], "-> %d %s", &status, &end); n == 0 {
		t.Fatal(err)
	}
	if got.status != status {
		t.Errorf("status %d, want %d: %s", got.status, status, got.body)
		return
	}
	if end != "" {
		got = c.finished(t, got, end)
	}
	c.compare(t, got, s.lines[arrow+1:])
}

func (c *contract) makeFile(name string, options []string, content string) {
	data := []byte(content)
	if slices.Contains(options, "gz") {
		var b bytes.Buffer
		zw := gzip.NewWriter(&b)
		_, err := zw.Write(data)
		check(c.t, errors.Join(err, zw.Close()))
		name, data = name+".gz", b.Bytes()
	}
	f, err := c.Upload(c.t.Context(), storageapi.FilePrepare{Name: name}, storageapi.BytesSource(data))
	check(c.t, err)
	c.vars[strings.TrimSuffix(name, ".gz")] = f.ID.String()
}

func (c *contract) compareSlices(t *testing.T, id string, compressed bool, want []string) {
	var n storageapi.IntID
	check(t, n.UnmarshalJSON([]byte(id)))
	got := c.slices(n)
	if compressed {
		zr, err := gzip.NewReader(strings.NewReader(got))
		check(t, err)
		got = c.read(zr)
	}
	if text := strings.TrimSuffix(got, "\n"); text != strings.Join(want, "\n") {
		t.Errorf("the slices are %q", got)
	}
}

func (c *contract) request(t *testing.T, lines []string) response {
	method, path, ok := strings.Cut(lines[0], " ")
	if !ok {
		t.Fatalf("want a method and a path, got %q", lines[0])
	}
	lines = lines[1:]
	var header []string
	contentType := ""
	for len(lines) > 0 && headerLine.MatchString(lines[0]) {
		m := headerLine.FindStringSubmatch(lines[0])
		if m[1] == "Content-Type" {
			contentType = m[2]
		} else {
			header = append(header, m[1], m[2])
		}
		lines = lines[1:]
	}
	if contentType == "" && len(lines) > 0 {
		contentType = jsonType
	}
	body := strings.Join(lines, "\n")
	got := c.raw(method, path, contentType, body, header...)
	for _, fault := range c.api.check(method, path, body, got) {
		t.Error(fault)
	}
	return got
}

// finished waits for the job of a response, of the Storage API or of the queue, and reads it.
func (c *contract) finished(t *testing.T, a response, status string) response {
	var job struct {
		ID        storageapi.IntID `json:"id"`
		Operation string           `json:"operationName"`
		URL       string           `json:"url"`
	}
	check(t, json.Unmarshal(a.body, &job))
	if job.Operation != "" {
		_, _ = c.WaitForJob(t.Context(), job.ID) // how it ended is looked at below
	} else {
		_, _ = c.WaitForQueueJob(t.Context(), storageapi.ID(job.ID.String()))
	}
	out := c.raw("GET", strings.TrimPrefix(job.URL, c.http.URL), "", "")
	if got := out.decode(t)["status"]; got != status {
		t.Fatalf("the job ended with %q, want %q: %s", got, status, out.body)
	}
	return out
}

func (c *contract) compare(t *testing.T, got response, want []string) {
	t.Helper()
	if len(want) == 0 {
		return
	}
	if strings.HasPrefix(want[0], "| ") {
		var text strings.Builder
		for _, line := range want {
			text.WriteString(strings.TrimPrefix(line, "| ") + "\n")
		}
		if string(got.body) != text.String() {
			t.Errorf("the answer is %q, want %q", got.body, text.String())
		}
		return
	}
	if kind := got.header.Get("Content-Type"); kind != jsonType {
		t.Errorf("Content-Type %q", kind)
	}
	expected, err := decodeNumbers([]byte(strings.Join(want, "\n")))
	if err != nil {
		t.Fatalf("the expectation: %v", err)
	}
	actual, err := decodeNumbers(got.body)
	if err != nil {
		t.Fatalf("%s: got %v, want no error", got.body, err)
	}
	for _, fault := range c.differences("answer", actual, expected) {
		t.Error(fault)
	}
	if t.Failed() {
		t.Errorf("got %s", got.body)
	}
}

func decodeNumbers(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

var capture = regexp.MustCompile(`^<(\w+)=>$`)

// differences lists where a value differs from the expected value.
func (c *contract) differences(at string, got, want any) (faults []string) {
	fault := func(format string, args ...any) []string {
		return []string{at + ": " + fmt.Sprintf(format, args...)}
	}
	switch want := want.(type) {
	case string:
		if m := capture.FindStringSubmatch(want); m != nil {
			c.vars[m[1]] = fmt.Sprint(got)
			return nil
		}
		if !matchesText(got, want) {
			return fault("got %#v, want %q", got, want)
		}
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fault("got %#v, want an object", got)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, there := object[name]
			switch {
			case want[name] == "<absent>" && there:
				faults = append(faults, fault("has the member %s: %v", name, value)...)
			case want[name] == "<absent>":
			case !there:
				faults = append(faults, fault("has no member %s", name)...)
			default:
				faults = append(faults, c.differences(at+"."+name, value, want[name])...)
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok {
			return fault("got %#v, want an array", got)
		}
		if len(want) > 0 && want[0] == "<has>" {
			for i, w := range want[1:] {
				if !slices.ContainsFunc(list, func(v any) bool { return len(c.differences(at, v, w)) == 0 }) {
					faults = append(faults, fault("has not element %d of the expected ones", i)...)
				}
			}
			return faults
		}
		if len(list) != len(want) {
			return fault("has %d elements, want %d", len(list), len(want))
		}
		for i := range want {
			faults = append(faults, c.differences(fmt.Sprintf("%s[%d]", at, i), list[i], want[i])...)
		}
	default:
		if got != want {
			return fault("got %#v, want %#v", got, want)
		}
	}
	return faults
}

// matchesText compares with an expected text, which may stand for a kind of values.
func matchesText(got any, want string) bool {
	text, isText := got.(string)
	switch want {
	case "<any>":
		return true
	case "<string>":
		return isText
	case "<number>":
		_, isNumber := got.(json.Number)
		return isNumber
	case "<time>":
		var at storageapi.Time
		return isText && at.UnmarshalJSON([]byte(`"`+text+`"`)) == nil && !at.IsZero()
	case "<empty>":
		list, isList := got.([]any)
		object, isObject := got.(map[string]any)
		return got == nil || isText && text == "" || isList && len(list) == 0 || isObject && len(object) == 0
	}
	return isText && text == want
}
