package platform

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// mergeJSON lays over on base, objects key by key, arrays item by item. For scalars and different kinds over wins. An empty
// array over an object changes nothing, because many clients write an empty object so. Values keep their bytes, so numbers
// keep all digits.
func mergeJSON(base, over json.RawMessage) (json.RawMessage, error) {
	switch {
	case kindOf(base) == '{' && isEmptyArray(over):
		return base, nil
	case kindOf(base) == '{' && kindOf(over) == '{':
		var a, b map[string]json.RawMessage
		if err := unmarshalBoth(base, &a, over, &b); err != nil {
			return nil, err
		}
		if err := mergeMembers(a, b); err != nil {
			return nil, err
		}
		return jsontext.Marshal(a)
	case kindOf(base) == '[' && kindOf(over) == '[':
		var a, b []json.RawMessage
		if err := unmarshalBoth(base, &a, over, &b); err != nil {
			return nil, err
		}
		for i, value := range b {
			if i >= len(a) {
				a = append(a, value)
				continue
			}
			merged, err := mergeJSON(a[i], value)
			if err != nil {
				return nil, err
			}
			a[i] = merged
		}
		return jsontext.Marshal(a)
	}
	return over, nil
}

func mergeMembers(base, over map[string]json.RawMessage) (err error) {
	for name, value := range over {
		if below, both := base[name]; both {
			if value, err = mergeJSON(below, value); err != nil {
				return err
			}
		}
		base[name] = value
	}
	return nil
}

func kindOf(raw json.RawMessage) byte {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

func isEmptyArray(raw json.RawMessage) bool {
	var list []json.RawMessage
	return kindOf(raw) == '[' && json.Unmarshal(raw, &list) == nil && len(list) == 0
}

func unmarshalBoth(a json.RawMessage, into any, b json.RawMessage, andInto any) error {
	if err := json.Unmarshal(a, into); err != nil {
		return err
	}
	return json.Unmarshal(b, andInto)
}

// asObject reads content as an object. An empty array stands for an empty object.
func asObject(content json.RawMessage) (map[string]json.RawMessage, error) {
	nodes := make(map[string]json.RawMessage)
	if isEmptyArray(content) {
		return nodes, nil
	}
	if kindOf(content) != '{' {
		return nil, UserError(errors.New("the configuration is no object"))
	}
	return nodes, json.Unmarshal(content, &nodes)
}

// effectiveConfiguration is the configuration that a component gets, which is root with the row, if any, laid over it, without
// processors, and with the nodes that only exist at run time.
func effectiveConfiguration(root, row, imageParameters json.RawMessage) (json.RawMessage, error) {
	nodes, err := asObject(root)
	if err != nil {
		return nil, err
	}
	delete(nodes, "processors")
	if row != nil {
		over, err := asObject(row)
		if err != nil {
			return nil, err
		}
		delete(over, "processors")
		if err := mergeMembers(nodes, over); err != nil {
			return nil, err
		}
	}
	nodes["image_parameters"], nodes["action"] = orEmptyObject(imageParameters), json.RawMessage(`"run"`)
	return jsontext.Marshal(nodes)
}
