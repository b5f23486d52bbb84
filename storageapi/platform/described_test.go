package platform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// descriptions are the OpenAPI documents of a server, and what of them was used.
type descriptions struct {
	paths   map[string]map[string]described // by path and method
	schemas map[string]any
	used    map[string]bool // by method and path
}

type described struct {
	Parameters []struct {
		Name string `json:"name"`
		In   string `json:"in"`
	} `json:"parameters"`
	RequestBody struct {
		Content map[string]content `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]content `json:"content"`
	} `json:"responses"`
}

type content struct {
	Schema map[string]any `json:"schema"`
}

func newDescriptions() *descriptions {
	return &descriptions{paths: make(map[string]map[string]described), schemas: make(map[string]any), used: make(map[string]bool)}
}

// read adds the documents that a server gives.
func (d *descriptions) read(t *testing.T, w *world) {
	t.Helper()
	for _, name := range []string{"storage", "queue", "encryption"} {
		var document struct {
			Paths      map[string]map[string]described `json:"paths"`
			Components struct {
				Schemas map[string]any `json:"schemas"`
			} `json:"components"`
		}
		check(t, json.Unmarshal(w.raw("GET", "/openapi/"+name+".json", "", "").body, &document))
		if len(document.Paths) == 0 {
			t.Fatalf("the description of %s is empty", name)
		}
		maps.Copy(d.paths, document.Paths)
		maps.Copy(d.schemas, document.Components.Schemas)
	}
}

// find returns the operation for a path, and the path in the description. Of two that fit, the one with more fixed elements is
// the one.
func (d *descriptions) find(method, path string) (op described, name string, found bool) {
	elements := strings.Split(strings.TrimSuffix(path, "/"), "/")
	best := -1
	for _, candidate := range slices.Sorted(maps.Keys(d.paths)) {
		want := strings.Split(candidate, "/")
		fixed := 0
		if len(want) != len(elements) {
			continue
		}
		for i := range want {
			if want[i] == elements[i] {
				fixed++
			} else if !strings.HasPrefix(want[i], "{") {
				fixed = -1
				break
			}
		}
		o, known := d.paths[candidate][strings.ToLower(method)]
		if known && fixed > best {
			op, name, found, best = o, candidate, true, fixed
		}
	}
	return op, name, found
}

// check compares a request and its response with the description, and returns the differences.
func (d *descriptions) check(method, target, body string, a response) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, "description: "+fmt.Sprintf(format, args...))
	}
	path, query, _ := strings.Cut(target, "?")
	op, name, found := d.find(method, path)
	if !found {
		if a.status != 404 && a.status != 501 && path != "/apis.json" && !strings.HasPrefix(path, "/openapi/") {
			fault("there is no operation %s %s", method, path)
		}
		return faults
	}
	if a.status < 400 || a.status == 501 {
		d.used[method+" "+name] = true
	}
	parameters := make(map[string]bool)
	for _, p := range op.Parameters {
		parameters[p.In+" "+p.Name] = true
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		fault("%v", err)
	}
	for parameter := range values {
		if head, _, _ := strings.Cut(parameter, "["); a.status < 400 && !parameters["query "+head] {
			fault("%s %s has no parameter %s", method, name, head)
		}
	}
	var fields map[string]any
	if json.Unmarshal([]byte(body), &fields) == nil && a.status < 400 {
		of := op.RequestBody.Content["application/json"].Schema
		properties, _ := of["properties"].(map[string]any)
		for field := range fields {
			if _, known := properties[field]; !known && of["additionalProperties"] != true {
				fault("%s %s has no field %s", method, name, field)
			}
		}
		required, _ := of["required"].([]any)
		for _, field := range required {
			if _, sent := fields[fmt.Sprint(field)]; !sent {
				fault("%s %s works without the field %s", method, name, field)
			}
		}
	}
	response, known := op.Responses[fmt.Sprint(a.status)]
	if !known && a.status >= 400 {
		response, known = op.Responses["default"]
	}
	if !known {
		fault("%s %s does not answer %d", method, name, a.status)
	}
	if of := response.Content[jsonType].Schema; of != nil {
		got, err := decodeNumbers(a.body)
		if err != nil {
			fault("%v", err)
		} else {
			for _, f := range d.fits("answer", got, of) {
				fault("%s", f)
			}
		}
	} else if len(response.Content) == 0 && len(a.body) > 0 && a.status < 400 {
		fault("%s %s answers %d with a body", method, name, a.status)
	}
	return faults
}

// fits lists where a value is not of a schema. A member that is not described does not fit.
func (d *descriptions) fits(at string, got any, of map[string]any) (faults []string) {
	bad := func() []string { return []string{fmt.Sprintf("%s: %v is not of %v", at, got, of)} }
	if got == nil && of["nullable"] == true {
		return nil
	}
	if reference, ok := of["$ref"].(string); ok {
		target, known := d.schemas[strings.TrimPrefix(reference, "#/components/schemas/")].(map[string]any)
		if !known {
			return []string{"there is no schema " + reference}
		}
		return d.fits(at, got, target)
	}
	if all, ok := of["allOf"].([]any); ok {
		return d.fits(at, got, all[0].(map[string]any))
	}
	if one, ok := of["oneOf"].([]any); ok {
		for _, o := range one {
			f := d.fits(at, got, o.(map[string]any))
			if len(f) == 0 {
				return nil
			}
			faults = append(faults, f...)
		}
		return faults
	}
	switch of["type"] {
	case nil:
	case "object":
		object, ok := got.(map[string]any)
		if !ok {
			return bad()
		}
		properties, _ := of["properties"].(map[string]any)
		others, _ := of["additionalProperties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			property, known := properties[name].(map[string]any)
			if !known {
				property = others
			}
			if property == nil {
				faults = append(faults, fmt.Sprintf("%s: the member %s is not described", at, name))
				continue
			}
			faults = append(faults, d.fits(at+"."+name, object[name], property)...)
		}
	case "array":
		list, ok := got.([]any)
		if _, bounded := of["maxItems"]; !ok || bounded && len(list) > 0 {
			return bad()
		}
		for i, v := range list {
			faults = append(faults, d.fits(fmt.Sprintf("%s[%d]", at, i), v, of["items"].(map[string]any))...)
		}
	case "string":
		if _, ok := got.(string); !ok {
			return bad()
		}
	case "boolean":
		if _, ok := got.(bool); !ok {
			return bad()
		}
	default:
		n, ok := got.(json.Number)
		if !ok || of["type"] == "integer" && strings.ContainsAny(n.String(), ".eE") {
			return bad()
		}
	}
	return faults
}

// unused lists the described operations that no request was made for. One that exists with and without a branch counts as
// one.
func (d *descriptions) unused() (list []string) {
	const base, branch = "/v2/storage", "/v2/storage/branch/{branch}"
	for path, methods := range d.paths {
		for method := range methods {
			method = strings.ToUpper(method)
			other := branch + strings.TrimPrefix(path, base)
			if rest, scoped := strings.CutPrefix(path, branch); scoped {
				other = base + rest
			}
			if !d.used[method+" "+path] && !d.used[method+" "+other] {
				list = append(list, method+" "+path)
			}
		}
	}
	slices.Sort(list)
	return list
}
