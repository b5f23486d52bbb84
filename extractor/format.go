package extractor

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// answerFormat is the format of a job's responses. The zero value is JSON.
type answerFormat struct {
	kind string // "" is JSON
	// Of CSV: the separator, and the names of the columns when the first line does not have them.
	comma    rune
	noHeader bool
	columns  []string
	// lists are, of XML, the dotted paths of elements that are lists even if there is only one.
	lists []string
	// charset is of every format.
	charset charset
}

const (
	formatCSV   = "csv"
	formatLines = "ndjson"
	formatXML   = "xml"
)

// parseFormat reads a format, given as its name, or an object with the name as type.
func parseFormat(s *section, byDefault answerFormat) answerFormat {
	n, ok := s.get("format")
	if !ok {
		return byDefault
	}
	below := s
	key := "format"
	if n.Kind() == tree.Object {
		below, key = s.section("format"), "type"
	}
	f := answerFormat{comma: ','}
	switch f.kind = below.text(key, ""); f.kind {
	case "json":
		f.kind = ""
	case formatCSV, formatLines, formatXML:
	default:
		below.wrong(key, "must be json, ndjson, csv or xml, not %q", f.kind)
	}
	if below == s {
		return f
	}
	if f.kind == formatCSV {
		if text := below.text("delimiter", ","); utf8.RuneCountInString(text) != 1 || strings.ContainsAny(text, "\"\r\n\ufffd") {
			below.wrong("delimiter", "must be one character, and no quote or line break")
		} else {
			f.comma, _ = utf8.DecodeRuneInString(text)
		}
		f.columns = parseTexts(below, "columns")
		f.noHeader = !below.boolean("header", len(f.columns) == 0)
		if f.noHeader && len(f.columns) == 0 {
			below.wrong("columns", "is required without a header")
		}
		checkNames(f.columns, func(problem string) { below.wrong("columns", "%s", problem) })
	}
	if f.kind == formatXML {
		f.lists = parseTexts(below, "lists")
	}
	f.charset = parseCharset(below)
	below.done()
	return f
}

// checkNames reports names of columns that are missing or not unique.
func checkNames(names []string, wrong func(string)) {
	for i, name := range names {
		if name == "" {
			wrong(fmt.Sprintf("column %d has no name", i+1))
		} else if slices.Contains(names[:i], name) {
			wrong(fmt.Sprintf("two columns have the name of column %d", i+1))
		}
	}
}

func (f *answerFormat) String() string {
	switch f.kind {
	case formatCSV:
		return "CSV"
	case formatLines:
		return "JSON in lines"
	case formatXML:
		return "XML"
	}
	return "JSON"
}

// of returns the format of a response with a status. Errors that are ignored are JSON because as CSV any text would be records.
func (f *answerFormat) of(status int) *answerFormat {
	if status >= 400 {
		return &answerFormat{charset: f.charset}
	}
	return f
}

// parse reads a response. More than most members of objects are an error. CSV and JSON in lines become a list, which is
// empty for an empty response; XML becomes an object whose only member is the root element.
func (f *answerFormat) parse(ctx context.Context, body string, most int) (tree.Node, error) {
	switch f.kind {
	case formatCSV:
		return f.parseCSV(ctx, body, most)
	case formatLines:
		return parseLines(ctx, body, most)
	case formatXML:
		return f.parseXML(ctx, body, most)
	}
	return tree.ParseText(ctx, body, most)
}

// A listText gathers items as the text of a JSON list. A long list then stays text, and needs no more memory than that.
type listText struct {
	strings.Builder
	most int // bytes
}

// Each member that is allowed may take so many bytes.
const bytesPerMember = 128

var errLongText = errors.New("the response as JSON takes more memory than is allowed")

func (t *listText) add(item []byte) error {
	if t.Len()+len(item) > t.most {
		return errLongText
	}
	if t.Len() == 0 {
		t.WriteByte('[')
	} else {
		t.WriteByte(',')
	}
	t.Write(item)
	return nil
}

func (t *listText) list(ctx context.Context, members int) (tree.Node, error) {
	if t.Len() == 0 {
		return tree.OfList(), nil
	}
	t.WriteByte(']')
	return tree.ParseText(ctx, t.String(), members)
}

// parseLines reads one JSON value a line. Blank lines are skipped.
func parseLines(ctx context.Context, body string, most int) (tree.Node, error) {
	text := listText{most: most * bytesPerMember}
	number := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(body, "\ufeff"), "\n") {
		number++
		if number%1024 == 0 && ctx.Err() != nil {
			return tree.Node{}, context.Cause(ctx)
		}
		item := []byte(strings.TrimSpace(line))
		if len(item) == 0 {
			continue
		}
		if !json.Valid(item) {
			return tree.Node{}, fmt.Errorf("line %d is not one JSON value", number)
		}
		if err := text.add(item); err != nil {
			return tree.Node{}, err
		}
	}
	return text.list(ctx, most)
}

// endedByLF returns CSV whose lines end with CR alone, as old programs write it, with LF in their place. The first end of a line decides.
func endedByLF(body string) string {
	quoted, alone := false, false
	var out []byte
	for i := range len(body) {
		switch c := body[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\n' && !alone:
			return body
		case c == '\r':
			if !alone && strings.HasPrefix(body[i+1:], "\n") {
				return body
			}
			if !alone {
				alone, out = true, []byte(body)
			}
			out[i] = '\n'
		}
	}
	if !alone {
		return body
	}
	return string(out)
}

// parseCSV reads lines as objects of texts. All lines have as many fields as the first.
func (f *answerFormat) parseCSV(ctx context.Context, body string, most int) (tree.Node, error) {
	r := csv.NewReader(strings.NewReader(endedByLF(strings.TrimPrefix(body, "\ufeff"))))
	r.Comma, r.ReuseRecord, r.FieldsPerRecord = f.comma, true, len(f.columns)
	names := f.columns
	text := listText{most: most * bytesPerMember}
	var item []byte
	for number := 0; ; number++ {
		if number%1024 == 0 && ctx.Err() != nil {
			return tree.Node{}, context.Cause(ctx)
		}
		fields, err := r.Read()
		if err == io.EOF {
			return text.list(ctx, most)
		}
		if err != nil {
			return tree.Node{}, err // says where, and quotes nothing
		}
		if number == 0 && !f.noHeader {
			var wrong error
			checkNames(fields, func(problem string) { wrong = errors.New("the header: " + problem) })
			if wrong != nil {
				return tree.Node{}, wrong
			}
			if names == nil {
				names = slices.Clone(fields)
			}
			continue
		}
		item = append(item[:0], '{')
		for i, value := range fields {
			if i > 0 {
				item = append(item, ',')
			}
			item = tree.OfString(names[i]).AppendJSON(item, tree.Plain)
			item = append(item, ':')
			item = tree.OfString(value).AppendJSON(item, tree.Plain)
		}
		if err := text.add(append(item, '}')); err != nil {
			return tree.Node{}, err
		}
	}
}

// An element is one of XML that is being read.
type element struct {
	path  string
	kids  []tree.Member
	index map[string]int
	// many are the members that are lists, by their places.
	many map[int][]tree.Node
	text strings.Builder
}

// parseXML makes an object of each element: attributes with '@' in front, elements by their local names, text as "#text". An
// element with text only is the text. Elements of one name are a list.
func (f *answerFormat) parseXML(ctx context.Context, body string, most int) (tree.Node, error) {
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(body, "\ufeff")))
	d.CharsetReader = asIs
	open := []*element{{}}
	for held := 0; ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return tree.Node{}, err
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			if len(open) > tree.MaxDepth {
				return tree.Node{}, errors.New("elements are nested too deeply")
			}
			if held += 1 + len(token.Attr); held > most {
				return tree.Node{}, errors.New("more elements than fit the memory that is allowed")
			}
			if held%1024 == 0 && ctx.Err() != nil {
				return tree.Node{}, context.Cause(ctx)
			}
			e := &element{path: strings.TrimPrefix(top.path+"."+token.Name.Local, ".")}
			for _, a := range token.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					e.kids = append(e.kids, tree.Member{Key: "@" + a.Name.Local, Value: tree.OfString(a.Value)})
				}
			}
			open = append(open, e)
		case xml.CharData:
			top.text.Write(token)
		case xml.EndElement:
			open = open[:len(open)-1]
			open[len(open)-1].add(token.Name.Local, top.node(), slices.Contains(f.lists, top.path))
		}
	}
	root := open[0].node()
	if root.Kind() != tree.Object {
		return tree.Node{}, errors.New("there is no element")
	}
	return root, nil
}

// add adds an element below.
func (e *element) add(name string, n tree.Node, isList bool) {
	at, known := e.index[name]
	if !known {
		if e.index == nil {
			e.index = make(map[string]int)
		}
		at = len(e.kids)
		e.index[name] = at
		e.kids = append(e.kids, tree.Member{Key: name, Value: n})
		if !isList {
			return
		}
	}
	if e.many == nil {
		e.many = make(map[int][]tree.Node)
	}
	if known && e.many[at] == nil {
		e.many[at] = []tree.Node{e.kids[at].Value}
	}
	e.many[at] = append(e.many[at], n)
}

func (e *element) node() tree.Node {
	text := e.text.String()
	if len(e.kids) == 0 {
		return tree.OfString(text)
	}
	for at, items := range e.many {
		e.kids[at].Value = tree.OfList(items...)
	}
	if text = strings.TrimSpace(text); text != "" {
		e.kids = append(e.kids, tree.Member{Key: "#text", Value: tree.OfString(text)})
	}
	return tree.OfObject(e.kids...)
}
