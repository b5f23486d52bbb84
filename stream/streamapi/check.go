package streamapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/driverkit/jsontext"
)

// checks are the rules for requests of one operation.
type checks struct {
	op       *operation
	registry huma.Registry
	body     *huma.Schema
	query    []*huma.Schema // of op.query
	// programmatic demands the project of a request with a programmatic token.
	programmatic bool
}

// problems collects the faults in the form of a request. One response reports all of them under the name of the first.
type problems struct {
	name  string
	texts []string
}

func (p *problems) add(name, format string, args ...any) {
	p.name = cmp.Or(p.name, name)
	p.texts = append(p.texts, fmt.Sprintf(format, args...))
}

// refused adds an error of the catalog, unless it is nil.
func (p *problems) refused(err error) {
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		p.add(string(e.Code), "%s", strings.TrimSuffix(e.Message, "."))
	}
}

func (p *problems) err() error {
	if p.name == "" {
		return nil
	}
	return names.Errorf(http.StatusBadRequest, p.name, "%s", strings.Join(p.texts, "; "))
}

// decode checks the form of a request, whose body may have most bytes, and fills the call.
func (k *checks) decode(c *request, most int64) error {
	var p problems
	if k.op.access != open {
		switch token := requestToken(c.r); {
		case token == "":
			p.add("missingField", "%s", missingToken.Message)
		case k.programmatic && isProgrammatic(token):
			requestProject(c.r, &p)
		}
	}
	if err := k.readBody(c, &p, most); err != nil {
		return err
	}
	k.path(c, &p)
	if c.r.URL.RawQuery != "" {
		q, err := url.ParseQuery(c.r.URL.RawQuery)
		if err != nil {
			p.add("badRequest", "the query cannot be read: %v", err)
		}
		k.parameters(q, &p)
	}
	if k.op.pages() {
		c.page = newPage(c.r.URL.Query())
	}
	return p.err()
}

func (k *checks) path(c *request, p *problems) {
	for _, id := range []struct{ name, value string }{{"sourceId", c.source}, {"sinkId", c.sink}, {"copyId", c.r.PathValue("copyId")}} {
		if n := utf8.RuneCountInString(id.value); n > forebay.MaxIDLength {
			p.add("invalidLength", "length of %s must be lesser or equal than %d but got %d", id.name, forebay.MaxIDLength, n)
		}
	}
	text := c.r.PathValue("versionNumber")
	if text == "" {
		return
	}
	n, err := parseInt(text)
	switch {
	case err != nil:
		p.add("invalidFieldType", "versionNumber is %q, must be an integer", text)
	case n < 1:
		p.add("invalidRange", "versionNumber must be greater or equal than 1 but got %d", n)
	}
	c.number = n
}

// parseInt reads a number as clients write it: without a plus sign.
func parseInt(text string) (int, error) {
	if strings.HasPrefix(text, "+") {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// parameters checks the query. It refuses unknown parameters, because a list with a misspelt filter would return all records.
func (k *checks) parameters(q url.Values, p *problems) {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.ContainsFunc(k.op.query, func(known parameter) bool { return known.name == name }) {
			var known []string
			for _, parameter := range k.op.query {
				known = append(known, parameter.name)
			}
			has := "it has no parameters"
			if len(known) > 0 {
				has = "it has " + strings.Join(known, ", ")
			}
			p.add("badRequest", "the query has the parameter %.100q, which %s does not have: %s", name, k.op.id, has)
		}
	}
	for i, schema := range k.query {
		name := k.op.query[i].name
		if !q.Has(name) {
			continue
		}
		text := q.Get(name)
		var v any = text
		var err error
		switch schema.Type {
		case huma.TypeBoolean:
			v, err = strconv.ParseBool(text)
		case huma.TypeInteger:
			var n int
			n, err = parseInt(text)
			v = float64(n)
		}
		if err != nil {
			p.add("invalidFieldType", "%s is %q, must be %s", name, text, schema.Type)
			continue
		}
		if k.validate(schema, name, v, p) && k.op.query[i].check != nil {
			k.op.query[i].check(p, text)
		}
	}
}

func (k *checks) readBody(c *request, p *problems, most int64) error {
	if k.op.body == nil && !k.op.raw {
		return nil
	}
	b, err := io.ReadAll(http.MaxBytesReader(nil, c.r.Body, most))
	if err != nil {
		return names.ReadError(err)
	}
	if k.op.raw {
		c.raw = b
		return nil
	}
	if len(bytes.TrimSpace(b)) == 0 {
		p.add("missingPayload", "missing required payload, send a JSON object as the body")
		return nil
	}
	given := b
	b, v, err := k.decodeBody(given)
	if err != nil {
		p.add("decodePayload", "the body is not JSON: %s", notJSON(given, err))
		return nil
	}
	if !k.validate(k.body, "body", v, p) {
		return nil
	}
	body := reflect.New(reflect.TypeOf(k.op.body).Elem()).Interface()
	if err := json.Unmarshal(b, body); err != nil {
		p.add("invalidFieldType", "%s", unfit(err))
		return nil
	}
	c.body = body
	return nil
}

// unfit says why a value that its schema allows cannot be stored. An example is a whole number above 64 bits.
func unfit(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("body.%s: the value is out of range: %s", wrong.Field, wrong.Value)
	}
	return "the body cannot be read"
}

// notJSON says where a body is not JSON, and what to send.
func notJSON(b []byte, err error) string {
	syntax, wrong := errors.AsType[*json.SyntaxError](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("it ends after %d bytes, before its value does; send a whole JSON object", len(b))
	case wrong:
		return fmt.Sprintf("byte %d is %q, which JSON does not have there; send a JSON object", syntax.Offset, b[max(syntax.Offset-1, 0)])
	}
	return err.Error()
}

// decodeBody returns a body reduced to the members of its schema, and its decoded form. The checks and the operation see the
// same bytes. Of members given twice, in the same or another case, one remains.
func (k *checks) decodeBody(b []byte) (body []byte, v any, err error) {
	if !utf8.Valid(b) {
		return nil, nil, errors.New("it is not UTF-8")
	}
	var raw json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&raw); err != nil {
		return nil, nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("there is more after the JSON value")
	}
	raw, err = k.canonical(k.body, raw)
	if err != nil {
		return nil, nil, err
	}
	return raw, v, json.Unmarshal(raw, &v)
}

// canonical rewrites valid JSON. Objects get the members of the schema under their exact names, the last of equal ones. Other
// members are dropped unless the schema refuses them. Values of another type, or without a schema, stay as they are.
func (k *checks) canonical(s *huma.Schema, raw json.RawMessage) (json.RawMessage, error) {
	if s.Ref != "" {
		s = k.registry.SchemaFromRef(s.Ref)
	}
	var next any
	switch raw = bytes.TrimSpace(raw); {
	case s.Type == huma.TypeObject && len(s.Properties) > 0 && raw[0] == '{':
		var given map[string]json.RawMessage
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, err
		}
		members := map[string]json.RawMessage{}
		for _, name := range slices.Sorted(maps.Keys(given)) {
			known := false
			for property := range s.Properties {
				if !strings.EqualFold(name, property) {
					continue
				}
				known = true
				if _, exact := given[property]; name == property || !exact {
					members[property] = given[name]
				}
			}
			if !known && s.AdditionalProperties == false {
				members[name] = given[name]
			}
		}
		for name, value := range members {
			property := s.Properties[name]
			if property == nil {
				continue // validate refuses it
			}
			value, err := k.canonical(property, value)
			if err != nil {
				return nil, err
			}
			members[name] = value
		}
		next = members
	case s.Type == huma.TypeArray && raw[0] == '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, err
		}
		for i := range items {
			item, err := k.canonical(s.Items, items[i])
			if err != nil {
				return nil, err
			}
			items[i] = item
		}
		next = items
	default:
		return raw, nil
	}
	return jsontext.Marshal(next)
}

func (k *checks) validate(schema *huma.Schema, location string, v any, p *problems) bool {
	at := huma.NewPathBuffer([]byte(location), len(location))
	var res huma.ValidateResult
	huma.Validate(k.registry, schema, at, huma.ModeWriteToServer, v, &res)
	for _, err := range res.Errors {
		var detail *huma.ErrorDetail
		if !errors.As(err, &detail) {
			p.add("badRequest", "%v", err)
			continue
		}
		name := nameOf(detail.Message)
		if name == "missingField" {
			begin, _, _ := strings.Cut(validation.MsgExpectedRequiredProperty, "%s")
			property, _, _ := strings.Cut(strings.TrimPrefix(detail.Message, begin), " ")
			p.add(name, "%s.%s is missing, add it", detail.Location, property)
			continue
		}
		text := detail.Message
		if text == validation.MsgUnexpectedProperty {
			text += ": remove it, or correct its name"
		}
		p.add(name, "%s: %s", detail.Location, text)
	}
	return len(res.Errors) == 0
}

// nameOf returns the service's name for a message of the schema library.
func nameOf(message string) string {
	for _, m := range schemaMessages {
		begin, _, _ := strings.Cut(m.format, "%")
		if strings.HasPrefix(message, begin) {
			return m.name
		}
	}
	return "badRequest"
}

var schemaMessages = []struct{ format, name string }{
	{validation.MsgExpectedRequiredProperty, "missingField"},
	{validation.MsgExpectedMinLength, "invalidLength"},
	{validation.MsgExpectedMaxLength, "invalidLength"},
	{validation.MsgExpectedMinItems, "invalidLength"},
	{validation.MsgExpectedMaxItems, "invalidLength"},
	{validation.MsgExpectedOneOf, "invalidEnumValue"},
	{validation.MsgExpectedMinimumNumber, "invalidRange"},
	{validation.MsgExpectedExclusiveMinimumNumber, "invalidRange"},
	{validation.MsgExpectedMaximumNumber, "invalidRange"},
	{validation.MsgExpectedMatchPattern, "invalidPattern"},
	{validation.MsgExpectedBePattern, "invalidPattern"},
	{validation.MsgExpectedBoolean, "invalidFieldType"},
	{validation.MsgExpectedNumber, "invalidFieldType"},
	{validation.MsgExpectedInteger, "invalidFieldType"},
	{validation.MsgExpectedString, "invalidFieldType"},
	{validation.MsgExpectedArray, "invalidFieldType"},
	{validation.MsgExpectedObject, "invalidFieldType"},
}

// page is a part of a list.
type page struct {
	afterID string
	limit   int
}

const maxPage = 100

// pageParameters are the parameters of every list.
var pageParameters = []parameter{
	{name: "afterId", doc: "Id of the last item of the page before.", schema: ""},
	{name: "limit", doc: "Length of a page, 1 to 100. Default: 100.", schema: 0},
}

func (op *operation) pages() bool { return len(op.query) > 0 && op.query[0].name == "afterId" }

// newPage reads checked parameters.
func newPage(q url.Values) page {
	p := page{afterID: q.Get("afterId"), limit: maxPage}
	if n, err := strconv.Atoi(q.Get("limit")); err == nil {
		p.limit = n
	}
	return p
}

// cut returns the items on the page of a list with ascending ids.
func cut[T any](p page, all []T, id func(T) string) ([]T, pageBody) {
	total := len(all)
	if p.afterID != "" {
		for len(all) > 0 && id(all[0]) <= p.afterID {
			all = all[1:]
		}
	}
	all = all[:min(len(all), p.limit)]
	body := pageBody{Limit: p.limit, TotalCount: total, AfterID: p.afterID}
	if len(all) > 0 {
		body.LastID = id(all[len(all)-1])
	}
	return all, body
}

func jsonObject(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}
