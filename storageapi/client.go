package storageapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/driverkit/buildversion"
	"github.com/forebay/forebay/driverkit/warnlog"
)

// TokenHeader carries the token of a request.
const TokenHeader = "X-StorageApi-Token"

// RunIDHeader carries the id of the run to which a request belongs.
const RunIDHeader = "X-KBC-RunId"

// ProjectHeader names the project of a request whose token is not bound to one.
const ProjectHeader = "X-KBC-ProjectId"

// Options configure a [Client].
type Options struct {
	// URL is the address of the Storage API without the version, for example "https://storage.example.com". Required.
	URL string
	// Token is sent with each call. A token that begins with "Bearer " is sent as an Authorization header instead. It
	// may be empty for the calls that need none.
	Token Secret
	// HTTP makes the requests. Its transport, timeouts and proxy are the caller's choice. Default: a new client on
	// http.DefaultTransport. A redirect to another host is followed without the token.
	HTTP *http.Client
	// QueueURL is the address of the queue. Default: the address in the index, which the first call to the queue reads.
	QueueURL string
	// UserAgent is sent with each call. Default: "forebay/" and the version of the module in the program.
	UserAgent string
	// RunID, if not empty, is sent with each call. Files, jobs and events that the call creates carry it.
	RunID string
	// Retry bounds the repetition of failed calls.
	Retry RetryOptions
	// Logger gets repeated calls at level debug. Default: warnings and errors go to [slog.Default], and [slog.DiscardHandler] silences them.
	Logger *slog.Logger
	// S3Endpoint and GCSEndpoint replace the public addresses of these object stores. Files of the providers aws and gcp do not
	// name an address. The bucket is the first element of the path.
	S3Endpoint, GCSEndpoint string
}

// RetryOptions is an exponential backoff with jitter. A zero field means its default.
type RetryOptions struct {
	// Initial is the delay before the second attempt, 100 ms by default. The delay doubles with each attempt, and half
	// of it is random.
	Initial time.Duration
	// Max is the longest delay, 3 s by default. The Retry-After of a server may exceed it.
	Max time.Duration
	// Attempts bounds the attempts of one call, 6 by default. 1 disables retries.
	Attempts int
	// MaxElapsed is the time after which no further attempt starts, 1 minute by default.
	MaxElapsed time.Duration
}

func (r RetryOptions) withDefaults() RetryOptions {
	r.Initial = cmp.Or(r.Initial, 100*time.Millisecond)
	r.Max = cmp.Or(r.Max, max(3*time.Second, r.Initial))
	r.Attempts = cmp.Or(r.Attempts, 6)
	r.MaxElapsed = cmp.Or(r.MaxElapsed, time.Minute)
	return r
}

// Validate reports every breach at once.
func (o Options) Validate() error {
	var problems []error
	check := func(name, value string, required bool) {
		if value == "" && !required {
			return
		}
		if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			problems = append(problems, fmt.Errorf("%s: want an http or https address without query, such as https://storage.example.com", name))
		}
	}
	check("URL", o.URL, true)
	check("QueueURL", o.QueueURL, false)
	check("S3Endpoint", o.S3Endpoint, false)
	check("GCSEndpoint", o.GCSEndpoint, false)
	if strings.ContainsAny(string(o.Token), "\r\n\x00") {
		problems = append(problems, errors.New("token: contains a line break"))
	}
	if r := o.Retry; r.Initial < 0 || r.Max < 0 || r.Attempts < 0 || r.MaxElapsed < 0 {
		problems = append(problems, errors.New("a field of Retry is negative"))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("storage api: options: %w", errors.Join(problems...))
}

// Client makes calls with one token and one branch. It is immutable and safe for concurrent use.
type Client struct {
	opts   Options
	http   *http.Client
	branch string // element of the path, "" for the paths without one
	// project is sent with each call, 0 is not.
	project int64
	// queue is the address of the queue, read from the index at the first use. All copies of a client share it, because it
	// depends on the stack only.
	queue *atomic.Pointer[string]
}

// New returns a client. It makes no call.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Retry = o.Retry.withDefaults()
	o.Logger = warnlog.Or(o.Logger)
	o.UserAgent = cmp.Or(o.UserAgent, buildversion.Product())
	o.URL = strings.TrimRight(o.URL, "/")
	h := http.Client{}
	if o.HTTP != nil {
		h = *o.HTTP
	}
	h.CheckRedirect = keepToken(h.CheckRedirect)
	c := &Client{opts: o, http: &h, queue: new(atomic.Pointer[string])}
	if u := strings.TrimRight(o.QueueURL, "/"); u != "" {
		c.queue.Store(&u)
	}
	return c, nil
}

// keepToken wraps a rule for redirects so that no other host gets the token, because net/http removes only the standard headers with
// credentials.
func keepToken(rule func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
			req.Header.Del(TokenHeader)
			req.Header.Del("Authorization")
		}
		if rule != nil {
			return rule(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
}

// URL returns the address of the Storage API, without a slash at the end.
func (c *Client) URL() string { return c.opts.URL }

// WithToken returns a client with another token and the same connections.
func (c *Client) WithToken(token Secret) *Client {
	out := *c
	out.opts.Token = token
	return &out
}

// WithRunID returns a client whose calls belong to a run.
func (c *Client) WithRunID(runID string) *Client {
	out := *c
	out.opts.RunID = runID
	return &out
}

// WithProject returns a client whose calls name a project. 0 names none. A programmatic token needs it, because it stands for a token
// of that project. Set such a token as "Bearer " and the token.
func (c *Client) WithProject(id int64) *Client {
	out := *c
	out.project = id
	return &out
}

// Branch returns a client for a development branch, by its number, or "default". The empty id means the default branch, by paths
// without a branch. Calls without a branch (jobs, the list of branches, the queue) do not change, except that queue jobs run in
// the branch.
func (c *Client) Branch(id string) *Client {
	out := *c
	out.branch = id
	return &out
}
