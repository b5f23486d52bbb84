package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/jsontext"
	"github.com/forebay/forebay/mapping/internal/tape"
	"github.com/forebay/forebay/mapping/internal/template"
)

// faultFunc reports a fault of a column. line and col are 0 where there is no place.
type faultFunc func(field string, line, col int, err error)

// Compile checks the columns and returns their mapper. The error is a [DefinitionErrors] with every fault, or the error of
// [Options.Validate].
func Compile(cols Columns, opts Options) (*Mapper, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.slots == nil {
		opts = opts.Shared()
	}
	m := &Mapper{cells: make([]cell, len(cols)), compat: opts.Compat}
	var faults DefinitionErrors
	if len(cols) == 0 || len(cols) > MaxColumns {
		faults = append(faults, &DefinitionError{
			Index: -1, Field: "columns",
			Err: fmt.Errorf("a mapping has 1 to %d columns, not %d", MaxColumns, len(cols)),
		})
	}
	names := make(map[string]int, len(cols))
	typed := slices.ContainsFunc(cols, func(c Column) bool { return c.DataType != datatype.Untyped })
	for i, c := range cols {
		fault := func(field string, line, col int, err error) {
			faults = append(faults, &DefinitionError{i, c.Name, field, line, col, err})
		}
		if c.Name == "" {
			fault("name", 0, 0, errors.New("must not be empty; name the column of the table"))
		} else if first, ok := names[c.Name]; ok {
			fault("name", 0, 0, fmt.Errorf("column %d has the same name; names are unique in a mapping", first+1))
		} else {
			names[c.Name] = i
			if typed {
				checkName(cols[:i], c.Name, fault)
			}
		}
		m.cells[i] = cell{typ: c.Type, name: c.Name, inTable: c.InTable(), raw: c.RawString, onNull: c.DefaultOnNull, secret: c.Secret}
		m.compileCell(&m.cells[i], c, opts, fault)
		m.compileType(&m.cells[i], c, opts, fault)
		if l := opts.Limits; (l.UTF8 || l.NoNUL || l.MaxCell > 0) && !slices.Contains([]Type{TypeUUID, TypeDatetime, TypeIP}, c.Type) {
			m.cells[i].limits = &l
		}
	}
	if t := m.cells; len(t) == 1 && t[0].typed != nil && !t[0].inTable.Required {
		faults = append(faults, &DefinitionError{
			Index: 0, Column: t[0].name, Field: "required",
			Err: errors.New("the only column of a mapping cannot be nullable, because a row of one NULL is an empty line; set required, or add a column"),
		})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	m.paths.Index()
	m.uuids.begin()
	return m, nil
}

// compileCell makes the plan of a column. It reports every fault, also fields that belong to another type.
func (m *Mapper) compileCell(cl *cell, c Column, opts Options, fault faultFunc) {
	switch c.Type {
	case TypeUUID, TypeDatetime, TypeIP, TypeBody, TypeHeaders:
		if c.RawString {
			fault("rawString", 0, 0, errors.New("applies to path and template columns only; remove it"))
		}
	case TypePath:
		p, err := tape.ParsePath(c.Path, opts.Compat)
		if pe, ok := errors.AsType[*tape.PathError](err); ok {
			fault("path", 1, pe.Offset+1, errors.New(pe.Msg+"; "+pe.Next))
		} else {
			cl.path, cl.node = p, m.paths.Add(p)
		}
		if c.Default != nil && c.DataType == datatype.Untyped {
			if cl.def, err = defaultText(c.Default, c.RawString, opts.Compat); err != nil {
				fault("defaultValue", 0, 0, err)
			}
		}
	case TypeTemplate:
		if c.Template.Language != "jsonnet" {
			fault("template.language", 0, 0, fmt.Errorf("%q is not known; the language is %q", c.Template.Language, "jsonnet"))
			return
		}
		prog, faults := template.Compile(c.Template.Content, template.Options{
			Budget: template.Budget(opts.Budget), Compat: opts.Compat, Slots: opts.slots,
		})
		for _, f := range faults {
			fault("template.content", f.Line, f.Col, errors.New(f.Msg))
		}
		cl.prog = prog
	default:
		fault("type", 0, 0, fmt.Errorf("%q is not a column type; use uuid, datetime, ip, body, headers, path or template", c.Type))
	}
	if c.Type != TypeTemplate && c.Template != (TemplateSource{}) {
		fault("template", 0, 0, errors.New("applies to template columns only"))
	}
	if c.Type != TypePath {
		if c.Path != "" {
			fault("path", 0, 0, errors.New("applies to path columns only; remove it, or set the type path"))
		}
		if c.Default != nil {
			fault("defaultValue", 0, 0, errors.New("applies to path columns only; remove it, or set the type path"))
		}
		if c.DefaultOnNull {
			fault("defaultOnNull", 0, 0, errors.New("applies to path columns only; remove it, or set the type path"))
		}
	} else if c.DefaultOnNull && c.Default == nil {
		fault("defaultOnNull", 0, 0, errors.New("needs a defaultValue; set one, or remove it"))
	}
}

// defaultText returns the cell text of a default. With compat a string has the escapes of the published service.
func defaultText(def json.RawMessage, raw, compat bool) ([]byte, error) {
	var t tape.Tape
	if err := t.Parse(def); err != nil {
		return nil, notJSON(err, def)
	}
	switch {
	case t.Nodes[0].Kind != tape.String:
	case raw:
		return t.AppendText([]byte{}, 0), nil
	case compat:
		return jsontext.AppendString(nil, string(t.AppendText(nil, 0)), true), nil
	}
	return t.AppendValue(nil, 0), nil
}

// notJSON is the fault of a default that does not parse.
func notJSON(err error, def json.RawMessage) error {
	var se *tape.SyntaxError
	errors.As(err, &se)
	return fmt.Errorf("is not a JSON value: %s at byte %d of %.60q", se.Msg, se.Offset, def)
}
