package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// checkName refuses names that some databases change, or take for another column. earlier are the columns before.
func checkName(earlier Columns, name string, fault faultFunc) {
	if problem := celltype.NameProblem(name); problem != "" {
		fault("name", 0, 0, errors.New(problem))
	}
	for i, c := range earlier {
		if strings.EqualFold(c.Name, name) {
			fault("name", 0, 0, fmt.Errorf("column %d has the same name but for its case, which databases do not tell apart", i+1))
			return
		}
	}
}

// kindTypes are the types that the values of a kind of column can have. Other kinds can have any.
func kindTypes(kind Type) []datatype.Type {
	switch kind {
	case TypeUUID:
		return []datatype.Type{datatype.UUID, datatype.String}
	case TypeDatetime:
		return []datatype.Type{datatype.Timestamp, datatype.Date, datatype.String}
	case TypeIP:
		return []datatype.Type{datatype.String}
	case TypeBody:
		return []datatype.Type{datatype.JSON, datatype.String, datatype.Bytes}
	case TypeHeaders:
		return []datatype.Type{datatype.JSON, datatype.String}
	}
	return nil
}

// compileType plans the type of a column. It reports every fault, also options that belong to another type.
func (m *Mapper) compileType(cl *cell, c Column, opts Options, fault faultFunc) {
	checkOptions(c, fault)
	if c.DataType == datatype.Untyped {
		return
	}
	if err := c.DataType.Validate(); err != nil {
		fault("dataType", 0, 0, err)
		return
	}
	if allowed := kindTypes(c.Type); allowed != nil && !slices.Contains(allowed, c.DataType) {
		fault("dataType", 0, 0, fmt.Errorf("%s does not fit a column of the kind %s; use one of %v", c.DataType, c.Type, allowed))
		return
	}
	if c.RawString {
		fault("rawString", 0, 0, errors.New("applies to columns without a dataType; string stores the plain text"))
	}
	rules := celltype.Rules{
		Epoch: celltype.Epoch(c.Epoch), AssumeUTC: c.AssumeUTC, ClampLeap: c.ClampLeapSecond, FromTimestamp: c.FromTimestamp, Round: c.Round,
		NotBefore: boundCell("notBefore", c.NotBefore, c.DataType, fault), NotAfter: boundCell("notAfter", c.NotAfter, c.DataType, fault),
	}
	cl.typed = &typedCell{
		typ: c.DataType, isString: c.DataType == datatype.String, isJSON: c.DataType == datatype.JSON, opts: c.TypeOptions, noNUL: opts.Limits.NoNUL,
		conv:    celltype.NewConverter(c.DataType, rules, opts.Limits),
		limited: opts.Limits != datatype.Limits{},
	}
	if c.ElsePath != "" || c.ElseArrival { // Required counts for the last of the values
		cl.typed.hasElse, cl.typed.elseRequired, cl.typed.opts.Required = true, c.Required, false
	}
	if c.Type == TypePath && c.ElsePath != "" {
		p, err := tape.ParsePath(c.ElsePath, opts.Compat)
		if pe, ok := errors.AsType[*tape.PathError](err); ok {
			fault("elsePath", 1, pe.Offset+1, errors.New(pe.Msg+"; "+pe.Next))
		} else {
			other, typed := *cl, *cl.typed
			typed.hasElse = false
			other.typed, other.path, other.node = &typed, p, m.paths.Add(p)
			cl.other = &other
		}
	}
	if c.Type == TypeBody && c.DataType == datatype.JSON { // the same as the empty path
		cl.typ, cl.node = TypePath, m.paths.Add(tape.Path{})
	}
	if c.Type == TypePath && c.Default != nil {
		if err := m.compileDefault(cl, c); err != nil {
			fault("defaultValue", 0, 0, err)
		}
	}
}

// checkOptions refuses options of types that do not apply to the column.
func checkOptions(c Column, fault faultFunc) {
	value := c.Type == TypePath || c.Type == TypeTemplate
	isTime := c.DataType == datatype.Timestamp || c.DataType == datatype.Date && c.FromTimestamp
	_, _, isDecimal := c.DataType.DecimalOf()
	const times = "timestamps, and dates with fromTimestamp, from a path or template"
	isUnits := isTime || c.DataType == datatype.Int64
	for _, o := range []struct {
		name         string
		set, applies bool
		to           string
	}{
		{"required", c.Required, c.DataType != datatype.Untyped, "columns with a dataType"},
		{"emptyIsNull", c.EmptyIsNull, c.DataType != datatype.Untyped && (value || c.Type == TypeBody && c.DataType != datatype.JSON), "typed columns with a path or template, and bodies as string or bytes"},
		{"epoch", c.Epoch != "", isUnits && value, "int64 and " + times},
		{"assumeUtc", c.AssumeUTC, isTime && value, times},
		{"clampLeapSecond", c.ClampLeapSecond, isTime && value, times},
		{"fromTimestamp", c.FromTimestamp, c.DataType == datatype.Date && value, "dates from a path or template"},
		{"notBefore", c.NotBefore != "", c.DataType == datatype.Timestamp || c.DataType == datatype.Date, "timestamps and dates"},
		{"notAfter", c.NotAfter != "", c.DataType == datatype.Timestamp || c.DataType == datatype.Date, "timestamps and dates"},
		{"round", c.Round, isDecimal, "decimals"},
		{"parseText", c.ParseText, c.DataType == datatype.JSON && value, "json from a path or template"},
		{"elsePath", c.ElsePath != "", c.DataType != datatype.Untyped && c.Type == TypePath, "typed columns with a path"},
		{"elseArrival", c.ElseArrival, (isTime || c.DataType == datatype.Int64 && c.Epoch != "") && c.Type == TypePath, "timestamps, dates with fromTimestamp and int64 with epoch, with a path"},
		{"anyKind", c.AnyKind, c.DataType == datatype.String && value, "strings from a path or template"},
	} {
		if o.set && !o.applies {
			fault(o.name, 0, 0, errors.New("applies only to "+o.to+"; remove it, or change the column"))
		}
	}
	if c.Epoch != "" && !celltype.Epoch(c.Epoch).Valid() {
		fault("epoch", 0, 0, fmt.Errorf("%q is not a unit; use s, ms, us or ns", c.Epoch))
	}
}

// boundCell returns the cell of NotBefore or NotAfter.
func boundCell(name, text string, t datatype.Type, fault faultFunc) string {
	if text == "" || t != datatype.Timestamp && t != datatype.Date {
		return ""
	}
	conv := celltype.NewConverter(t, celltype.Rules{}, datatype.Limits{})
	bound, why := conv.Append(nil, []byte(text), celltype.Text)
	if why != celltype.OK {
		fault(name, 0, 0, fmt.Errorf("%q %s", text, celltype.Explain(why, t, celltype.Text)))
	}
	return string(bound)
}

// compileDefault converts the default of a typed path column.
func (m *Mapper) compileDefault(cl *cell, c Column) error {
	s := new(recordState)
	if err := s.tape.Parse(c.Default); err != nil {
		return notJSON(err, c.Default)
	}
	null := s.tape.Nodes[0].Kind == tape.Null
	switch {
	case null && c.Required:
		return errors.New("is null, and the column is required")
	case null:
		cl.typed.nullDefault = true
		return nil
	}
	w := rowWriter{m: m, r: new(Record), s: s, plain: true}
	def, fail := w.appendNode([]byte{}, cl, &s.tape, 0)
	if fail != nil {
		return fail.in(cl).Err
	}
	if w.null { // an empty text with EmptyIsNull
		cl.typed.nullDefault = true
		return nil
	}
	cl.def = def
	return nil
}
