// Package api is the client of the Stream API that the verbs of a program share.
package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/forebay/forebay/internal/program/flagtext"
)

// Environment has the streams and variables of a verb's process.
type Environment struct {
	// Stdin is read where a flag says so. Out gets the result, and Errors all other messages for people.
	Stdin       io.Reader
	Out, Errors io.Writer
	// Getenv returns a variable, or empty if it is not set.
	Getenv func(name string) string
}

// UsageError is a call with wrong arguments.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }

func (e *UsageError) Unwrap() error { return e.err }

// Wrong returns a [*UsageError].
func Wrong(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Flags say where the API is.
type Flags struct{ api, token, dir, branch string }

// Register makes the flags.
func (f *Flags) Register(flags *flag.FlagSet) {
	flags.StringVar(&f.api, "api", "", "address of the Stream API (default $FOREBAY_API or http://127.0.0.1:8081; e.g. http://10.0.0.2:8081)")
	flags.StringVar(&f.token, "token", "", "token of the API (default $FOREBAY_TOKEN or the file token of -dir; e.g. 3zn1qcr5kd0vw8ta)")
	flags.StringVar(&f.dir, "dir", "data", "data directory of a server on this machine, for its token (e.g. /var/lib/forebay)")
	flags.StringVar(&f.branch, "branch", "default", "id of the branch (e.g. 123)")
}

// Action returns the first argument and the others, or no action and all of them if the first one is a flag.
func Action(args []string) (action string, rest []string) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return args[0], args[1:]
	}
	return "", args
}

// Parse parses flags whose output is for people. The error is [flag.ErrHelp] after -h, else a [*UsageError].
func Parse(flags *flag.FlagSet, args []string) error {
	err := flagtext.Parse(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err == nil {
		err = flagtext.Misplaced(flags)
	}
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

// WrongAction is the error for an action that a verb does not have. It has actions.
func WrongAction(action, actions string) error {
	if action == "" {
		return Wrong("the action is missing: write one of %s, before the flags", actions)
	}
	return Wrong("the action is %q, must be %s", action, actions)
}

// SinkOf reads SOURCE/SINK.
func SinkOf(text string) (source, sink string, err error) {
	source, sink, ok := strings.Cut(text, "/")
	if !ok || source == "" || sink == "" || strings.Contains(sink, "/") {
		if text == "" {
			return "", "", Wrong("the sink is missing: name it as SOURCE/SINK, after the flags")
		}
		return "", "", Wrong("%q is no sink: name it as SOURCE/SINK, after the flags", text)
	}
	return source, sink, nil
}

// OnlySink reads SOURCE/SINK, which is all that stands after the flags.
func OnlySink(flags *flag.FlagSet) (source, sink string, err error) {
	if source, sink, err = SinkOf(flags.Arg(0)); err == nil && flags.NArg() > 1 {
		err = Wrong("unexpected argument %q: flags stand before SOURCE/SINK", flags.Arg(1))
	}
	return source, sink, err
}

// Client speaks with the API. Create it with [Flags.Client].
type Client struct {
	// Env is the environment of the verb.
	Env         Environment
	http        http.Client
	api, branch string
	token       string
}

// Client returns a client of the API that the flags name.
func (f *Flags) Client(env Environment) (*Client, error) {
	address := strings.TrimRight(cmp.Or(f.api, env.Getenv("FOREBAY_API"), "http://127.0.0.1:8081"), "/")
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, Wrong("-api is %q, must be an address such as http://127.0.0.1:8081", address)
	}
	token := cmp.Or(f.token, env.Getenv("FOREBAY_TOKEN"))
	if token == "" {
		text, err := os.ReadFile(filepath.Join(f.dir, "token"))
		if err != nil {
			return nil, fmt.Errorf("there is no token: give -token, set FOREBAY_TOKEN, or name the data directory of the server with -dir: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	c := &Client{Env: env, api: address, branch: f.branch, token: token}
	// A redirection would take the token to another server.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Sink returns the address of a sink.
func (c *Client) Sink(source, sink string) string {
	return c.api + "/v1/branches/" + url.PathEscape(c.branch) + "/sources/" + url.PathEscape(source) + "/sinks/" + url.PathEscape(sink)
}

// Damage returns the address of the records of damage.
func (c *Client) Damage() string {
	return c.api + "/v1/branches/" + url.PathEscape(c.branch) + "/damage"
}

// FailedFiles returns the address of the files whose last attempt has failed, of all sinks, or of a source if it is not empty. The list begins
// after a place, which is empty for the first page.
func (c *Client) FailedFiles(source, after string) string {
	return c.api + "/v1/branches/" + url.PathEscape(c.branch) + "/failed-files?" + url.Values{"sourceId": {source}, "afterId": {after}}.Encode()
}

// Erase returns the address that erases records.
func (c *Client) Erase() string {
	return c.api + "/v1/branches/" + url.PathEscape(c.branch) + "/erase"
}

// Instance returns the address of an instance of a cluster.
func (c *Client) Instance(name string) string {
	return c.api + "/v1/cluster/instances/" + url.PathEscape(name)
}

// Folder returns the address of a folder that a node of a cluster has set aside.
func (c *Client) Folder(name string) string {
	return c.api + "/v1/cluster/folders/" + url.PathEscape(name)
}

// Call sends a request and decodes the response, if there is one.
func (c *Client) Call(ctx context.Context, method, address string, body []byte, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-StorageApi-Token", c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "forebay/"+forebay.Version())
	resp, err := c.http.Do(req)
	if _, reason, ok := driver.DialFailure(err); ok {
		return fmt.Errorf("no server responds at %s (-api), %s: is it running?", c.api, reason)
	} else if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		var refused struct{ Error, Message string }
		if json.Unmarshal(text, &refused) != nil || refused.Message == "" {
			refused.Message = strings.TrimSpace(string(text[:min(len(text), 200)]))
		}
		err := fmt.Errorf("%s (%s)", Plain(refused.Message), strings.TrimSpace(fmt.Sprintf("status %d %s", resp.StatusCode, Plain(refused.Error))))
		switch {
		case resp.StatusCode == http.StatusUnauthorized:
			err = fmt.Errorf("the server at %s refuses the token: use the one in the file token of its data directory: -dir, -token or FOREBAY_TOKEN (%w)", c.api, err)
		case refused.Error == "" || strings.HasPrefix(refused.Error, "stream.in."):
			err = fmt.Errorf("the server at %s is not the Stream API: -api must be the -api-addr of a server (%w)", c.api, err)
		}
		return err
	}
	if answer == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the server at %s does not respond with JSON of the Stream API: -api must be the -api-addr of a server", c.api)
	}
	return nil
}

// Task is the part of a task that all have.
type Task struct {
	// TaskID names the task. Status is processing, success or error.
	TaskID, Status string
	// Result is one sentence after a success, Error one after a failure.
	Result, Error string
	// IsFinished is set when the task has ended.
	IsFinished bool
}

// Await asks for a task until it has ended, and returns its last record. each, if not nil, gets every record. If ctx ends first, the task continues
// on the server.
func (c *Client) Await(ctx context.Context, answer json.RawMessage, each func(json.RawMessage) error) (json.RawMessage, Task, error) {
	pause := ctxio.Pause{First: 50 * time.Millisecond, Last: 2 * time.Second}
	for {
		var task Task
		err := json.Unmarshal(answer, &task)
		if err == nil && each != nil {
			err = each(answer)
		}
		if err != nil || task.IsFinished {
			return answer, task, err
		}
		if err := pause.Wait(ctx); err != nil {
			return answer, task, fmt.Errorf("the server continues with task %s: %w", Line(task.TaskID), err)
		}
		if err := c.Call(ctx, http.MethodGet, c.api+"/v1/tasks/"+task.TaskID, nil, &answer); err != nil {
			return answer, task, err
		}
	}
}

// Write writes a response as JSON.
func (c *Client) Write(answer json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, answer, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Env.Out, "%s\n", &b)
	return err
}

// Plain takes characters out of a text that would control a terminal.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Line is [Plain] for a cell of a table.
func Line(text string) string { return strings.Join(strings.Fields(Plain(text)), " ") }
