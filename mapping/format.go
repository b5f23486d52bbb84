package mapping

import "strings"

// Format says how the body of a [Record] is parsed.
type Format uint8

const (
	// FormatFromHeader takes the format from the Content-Type header, by [FormatOf]. It is the zero value.
	FormatFromHeader Format = iota
	// FormatJSON is one JSON value (RFC 8259) of any type.
	FormatJSON
	// FormatForm is application/x-www-form-urlencoded, read as an object of texts.
	FormatForm
	// FormatOpaque is everything else. Body columns store it and BodyStr() reads it, but it has no fields.
	FormatOpaque
)

// String returns the format's name in lower case.
func (f Format) String() string {
	switch f {
	case FormatFromHeader:
		return "from header"
	case FormatJSON:
		return "json"
	case FormatForm:
		return "form"
	}
	return "opaque"
}

// FormatOf returns the format of a body by its Content-Type (RFC 9110, section 8.3.1). The media type is compared
// without regard to case and its parameters are ignored. JSON is application/json, text/json, and every type with the
// structured syntax suffix +json (RFC 6839). The result is never [FormatFromHeader].
func FormatOf(contentType string) Format {
	if contentType == "application/json" {
		return FormatJSON
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.Trim(media, " \t")
	typ, sub, ok := strings.Cut(media, "/")
	switch {
	case !ok || typ == "" || sub == "":
		return FormatOpaque
	case strings.EqualFold(media, "application/x-www-form-urlencoded"):
		return FormatForm
	case strings.EqualFold(media, "application/json"), strings.EqualFold(media, "text/json"),
		len(sub) > len("+json") && strings.EqualFold(sub[len(sub)-len("+json"):], "+json"):
		return FormatJSON
	}
	return FormatOpaque
}

// compatFormatOf is the published service's reading of a Content-Type, exact, in lower case, without parameters.
func compatFormatOf(contentType string) Format {
	sub, app := strings.CutPrefix(contentType, "application/")
	switch {
	case app && (sub == "json" || len(sub) > len("+json") && strings.HasSuffix(sub, "+json") && !strings.Contains(sub, ";")):
		return FormatJSON
	case app && strings.HasPrefix(sub, "x-www-form-urlencoded"):
		return FormatForm
	}
	return FormatOpaque
}
