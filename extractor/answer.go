package extractor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// An answerRule recognises responses that mean something else than a page (http.answerRules).
type answerRule struct {
	// path is where to look in the response, "" when the status alone decides.
	path string
	// statuses the rule is for. None means every response that is not an error by its status.
	statuses []int
	// equals and except are the texts that the value must have, and must not have. Without equals any value that is not empty will do.
	equals, except []string
	action         answerAction
	message        string // path of a text for the error
}

type answerAction uint8

const (
	actionFail answerAction = iota
	actionRetry
	actionEnd
)

func parseAnswerRules(h *section) []answerRule {
	var rules []answerRule
	for i, n := range h.list("answerRules") {
		s := asSection(h.p, n, index(h.at("answerRules"), i))
		if s == nil {
			continue
		}
		r := answerRule{
			path: s.text("path", ""), statuses: parseStatuses(s, "statuses", nil), equals: parseTexts(s, "equals"),
			except: parseTexts(s, "except"), message: s.text("message", ""),
		}
		switch action := s.text("action", "fail"); action {
		case "fail":
		case "retry":
			r.action = actionRetry
		case "end":
			r.action = actionEnd
		default:
			s.wrong("action", "must be fail, retry or end, not %q", action)
		}
		if r.path == "" && (len(r.statuses) == 0 || len(r.equals)+len(r.except) > 0) {
			s.wrong("path", "is required, except where statuses alone decide")
		}
		s.done()
		rules = append(rules, r)
	}
	return rules
}

// parseTexts reads a value or a list of values as texts.
func parseTexts(s *section, key string) []string {
	n, ok := s.get(key)
	if !ok {
		return nil
	}
	values := []tree.Node{n}
	if n.Kind() == tree.List {
		values = list(n)
	}
	var out []string
	for _, v := range values {
		if v.IsCollection() {
			s.wrong(key, "must be a value or a list of values")
			return nil
		}
		out = append(out, v.Text())
	}
	return out
}

// matches reports whether the rule applies to a response. passed is true when its status is no error.
func (r *answerRule) matches(status int, passed bool, body tree.Node) bool {
	if len(r.statuses) == 0 && !passed || len(r.statuses) > 0 && !slices.Contains(r.statuses, status) {
		return false
	}
	if r.path == "" {
		return true
	}
	n, ok := body.At(r.path, ".")
	switch {
	case !ok || n.IsCollection() && len(r.equals)+len(r.except) > 0:
		return false
	case len(r.equals) > 0:
		return slices.Contains(r.equals, n.Text()) && !slices.Contains(r.except, n.Text())
	case len(r.except) > 0:
		return !slices.Contains(r.except, n.Text())
	}
	return !n.Empty()
}

// An answerError is the verdict of a rule about a response.
type answerError struct {
	rule    *answerRule
	message string
}

func (e *answerError) Error() string {
	text := "the response matches http.answerRules"
	if e.rule.path != "" {
		text = fmt.Sprintf("the response has an error at %q", e.rule.path)
	}
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// judge applies the rules to a response. It returns nil when no rule matches.
func (c *client) judge(ctx context.Context, resp *response, format *answerFormat) *answerError {
	rules := c.plan.answerRules
	if len(rules) == 0 {
		return nil
	}
	passed := resp.status < 400 || slices.Contains(c.plan.ignoreErrors, resp.status)
	if passed {
		resp.node, resp.parseErr = c.parse(ctx, resp, format)
		resp.parsed = true
	}
	body := resp.node
	if !passed || resp.parseErr != nil {
		// Errors are JSON, often even where data is something else.
		body, _ = tree.ParseText(ctx, resp.body, c.mostMembers())
	}
	for i := range rules {
		r := &rules[i]
		if !r.matches(resp.status, passed, body) {
			continue
		}
		e := &answerError{rule: r}
		if n, ok := body.At(r.message, "."); ok && r.message != "" && n.IsScalar() {
			e.message = c.plan.secrets.excerpt(n.Text())
		}
		return e
	}
	return nil
}

// parse reads the body of a response.
func (c *client) parse(ctx context.Context, resp *response, format *answerFormat) (tree.Node, error) {
	if resp.textErr != nil {
		return tree.Node{}, resp.textErr
	}
	return format.of(resp.status).parse(ctx, resp.body, c.mostMembers())
}

// errNoPage ends a job as if there were no further page when a rule with the action end matches the response.
var errNoPage = errors.New("the response ends the job")

// fetch sends an API request and decodes the response, whose items are not known yet. errNoPage means that there is no page.
func (c *client) fetch(ctx context.Context, r *request, format *answerFormat) (*page, error) {
	var verdict *answerError
	r.charset = format.charset
	resp, err := c.doJudged(ctx, r, func(resp *response) *answerError {
		verdict = c.judge(ctx, resp, format)
		return verdict
	})
	if verdict != nil && verdict.rule.action == actionEnd && err == nil {
		return nil, errNoPage
	}
	if err != nil {
		return nil, err
	}
	ignored := slices.Contains(c.plan.ignoreErrors, resp.status)
	if ignored {
		c.log.WarnContext(ctx, "status of a response is ignored", "status", resp.status, "url", c.plan.shown(r.url))
	}
	n, err := resp.node, resp.parseErr
	if !resp.parsed {
		n, err = c.parse(ctx, resp, format)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		return &page{response: n, header: resp.header}, nil
	case ignored:
		body := strings.ToValidUTF8(resp.body, "")
		return &page{response: tree.OfObject(tree.Member{Key: "errorData", Value: tree.OfString(body)}), header: resp.header}, nil
	case resp.body == "" && (resp.status < 300 || resp.status == http.StatusNotModified):
		return &page{header: resp.header, blank: true}, nil
	case strings.TrimSpace(resp.body) == "":
		err = fmt.Errorf("the response is empty, %s is expected", format.of(resp.status))
	case resp.textErr != nil: // says enough
	default:
		err = fmt.Errorf("the response is not %s: %w", format.of(resp.status), err)
	}
	return nil, &RequestError{
		Method: r.method, URL: c.plan.shown(r.url), Status: resp.status, Attempts: resp.attempts, Err: err,
		Body: c.plan.secrets.excerpt(resp.body),
	}
}
