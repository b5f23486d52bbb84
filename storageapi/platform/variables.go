package platform

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/storageapi"
)

// A configuration has variables when its node variables_id names a configuration of [Options.VariablesComponent]. Their
// values come from the job (variableValuesData, or variableValuesId, a row of that configuration), or else from the row
// that the node variables_values_id names. At a run {{ name }} in the configuration and in its rows becomes the value.

// variableValues is the content of a row with values, and of variableValuesData.
type variableValues struct {
	Values []struct {
		Name  string        `json:"name"`
		Value storageapi.ID `json:"value"` // a number stands for its digits
	} `json:"values"`
}

// byName returns the values, or an error for a name that is missing or given twice.
func (v variableValues) byName() (map[string]string, error) {
	out := make(map[string]string, len(v.Values))
	for i, value := range v.Values {
		if value.Name == "" {
			return nil, fmt.Errorf("value %d has no name", i)
		}
		if _, twice := out[value.Name]; twice {
			return nil, fmt.Errorf("variable %q has two values", value.Name)
		}
		out[value.Name] = string(value.Value)
	}
	return out, nil
}

// parseVariableValues reads {"values":[{"name":…,"value":…}]}.
func parseVariableValues(raw json.RawMessage) (map[string]string, error) {
	var v variableValues
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, errors.New(`want {"values":[{"name":"…","value":"…"}]}`)
	}
	return v.byName()
}

// variableNodes are the nodes of a configuration that name its variables.
type variableNodes struct {
	ID       storageapi.ID `json:"variables_id"`
	ValuesID storageapi.ID `json:"variables_values_id"`
}

// checkVariables refuses values that no run could use.
func checkVariables(r queueRecord) error {
	if r.Variables == nil {
		return nil
	}
	if r.VariablesID != "" {
		return refuse(http.StatusBadRequest, "", "variableValuesId and variableValuesData exclude each other")
	}
	if _, err := parseVariableValues(r.Variables); err != nil {
		return refuse(http.StatusBadRequest, "", "variableValuesData: %s", err)
	}
	return nil
}

// resolveVariables returns the values for a run of root. It is nil if neither the job nor the configuration names any. Then
// {{ }} stays as it is, because it may belong to a language of the component.
func (e *execution) resolveVariables(tx *txn, root json.RawMessage) (map[string]string, error) {
	r := &e.record
	var nodes variableNodes
	if kindOf(root) == '{' {
		if err := json.Unmarshal(root, &nodes); err != nil {
			return nil, UserError(errors.New("variables_id and variables_values_id: want texts"))
		}
	}
	if nodes.ID == "" {
		if r.VariablesID != "" {
			return nil, UserError(fmt.Errorf("the job names the values %q, but the configuration has no variables_id", r.VariablesID))
		}
		if r.Variables == nil {
			return nil, nil
		}
	}
	var declared []string
	var values map[string]string
	if nodes.ID != "" {
		id := configID{r.Branch, e.q.s.opts.VariablesComponent, string(nodes.ID)}
		conf, err := openConfiguration(tx, id, storageapi.TokenRef{}, false)
		if isNotFound(err) {
			return nil, UserError(fmt.Errorf("variables_id: there are no variables %q", nodes.ID))
		}
		if err != nil {
			return nil, err
		}
		if declared, err = conf.declaredVariables(); err != nil {
			return nil, err
		}
		if row := cmp.Or(r.VariablesID, string(nodes.ValuesID)); row != "" && r.Variables == nil {
			if values, err = conf.variableRow(row); err != nil {
				return nil, err
			}
		}
	}
	if r.Variables != nil {
		var err error
		if values, err = parseVariableValues(r.Variables); err != nil {
			return nil, UserError(fmt.Errorf("variableValuesData: %w", err))
		}
	}
	var absent []string
	for _, name := range declared {
		if _, given := values[name]; !given {
			absent = append(absent, name)
		}
	}
	if len(absent) > 0 {
		return nil, UserError(fmt.Errorf("no value for the variables %s: give variableValuesData or variableValuesId, or set variables_values_id", strings.Join(absent, ", ")))
	}
	if values == nil {
		values = map[string]string{}
	}
	return values, nil
}

func (c *configuration) declaredVariables() (names []string, err error) {
	content := c.readContent(c.head.Latest)
	if kindOf(content) != '{' {
		return nil, nil
	}
	var v struct {
		Variables []struct {
			Name string `json:"name"`
		} `json:"variables"`
	}
	if err := json.Unmarshal(content, &v); err != nil {
		return nil, UserError(fmt.Errorf(`variables %q: want {"variables":[{"name":"…"}]}`, c.config))
	}
	for _, variable := range v.Variables {
		names = append(names, variable.Name)
	}
	return names, nil
}

// variableRow reads the values of a row.
func (c *configuration) variableRow(id string) (map[string]string, error) {
	latest := c.head.Latest
	at := latest.find(id)
	if at < 0 {
		return nil, UserError(fmt.Errorf("the variables %q have no values %q", c.config, id))
	}
	values, err := parseVariableValues(c.readRow(latest.Rows[at]).Content)
	if err != nil {
		return nil, UserError(fmt.Errorf("values %q of the variables %q: %w", id, c.config, err))
	}
	return values, nil
}

// placeholder is a variable in a text: {{ name }} or {{{ name }}}. Outside of texts JSON has no two braces in a row.
var placeholder = regexp.MustCompile(`\{\{\{\s*([\w.-]+)\s*\}\}\}|\{\{\s*([\w.-]+)\s*\}\}`)

// replaceVariables puts the values into the texts of a configuration. nil values replace nothing.
func replaceVariables(content json.RawMessage, values map[string]string) (json.RawMessage, error) {
	if values == nil || content == nil {
		return content, nil
	}
	absent := make(map[string]bool)
	out := placeholder.ReplaceAllFunc(content, func(found []byte) []byte {
		name := strings.Trim(string(found), "{} \t\r\n")
		value, given := values[name]
		if !given {
			absent[name] = true
			return found
		}
		text, err := jsontext.Marshal(value)
		if err != nil {
			return found // a string always has a JSON form
		}
		return text[1 : len(text)-1]
	})
	if len(absent) > 0 {
		return nil, UserError(fmt.Errorf("no value for the variables %s", strings.Join(slices.Sorted(maps.Keys(absent)), ", ")))
	}
	return out, nil
}
