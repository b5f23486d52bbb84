package streamapi

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/mapping"
)

// mappedColumn is a [mapping.Column] in a request or a response. It has the schema of [column].
type mappedColumn struct {
	mapping.Column
	// missing is the member that the type of the column requires and a request has left out. Column then has a type that
	// requires none, so that the rest of the mapping can be checked too.
	missing string
}

// column describes the JSON form of a [mapping.Column]. A new option of a column is one line here.
type column struct {
	Type            string          `json:"type" enum:"uuid,datetime,ip,body,headers,path,template" doc:"What the column holds: a new UUID, the time of the event, the address of its sender, its whole body, its headers, one field, or the result of a template."`
	Name            string          `json:"name" doc:"Name of the column, unique in the mapping."`
	Path            *string         `json:"path,omitempty" doc:"Field of the event; required in columns of type path. The empty path is the whole event."`
	DefaultValue    json.RawMessage `json:"defaultValue,omitempty" doc:"Value of a path column whose field is missing or unreadable."`
	DefaultOnNull   bool            `json:"defaultOnNull,omitempty" doc:"Use defaultValue for a field that is null, too."`
	RawString       *bool           `json:"rawString,omitempty" doc:"Store a JSON string without quotes; columns of type path and template."`
	Template        *templateBody   `json:"template,omitempty" doc:"Required in columns of type template."`
	DataType        string          `json:"dataType,omitempty" doc:"Type of the values: string, bool, int64, float64, decimal(p,s), timestamp, date, uuid, json or bytes. Null is then NULL. Without a type the column is text."`
	Required        bool            `json:"required,omitempty" doc:"Reject events whose value is null or missing; columns with a dataType."`
	EmptyIsNull     bool            `json:"emptyIsNull,omitempty" doc:"Take the empty text as null; columns with a dataType."`
	Epoch           string          `json:"epoch,omitempty" enum:"s,ms,us,ns" doc:"Unit of times that are numbers, counted from 1970; timestamps, dates with fromTimestamp, and int64, which then takes times too."`
	AssumeUTC       bool            `json:"assumeUtc,omitempty" doc:"Take times without a zone as UTC; timestamps, and dates with fromTimestamp."`
	ClampLeapSecond bool            `json:"clampLeapSecond,omitempty" doc:"Take a leap second, 23:59:60 UTC at the end of a month, as 23:59:59.999999; timestamps, and dates with fromTimestamp."`
	FromTimestamp   bool            `json:"fromTimestamp,omitempty" doc:"Take the day in UTC of a time; dates."`
	NotBefore       string          `json:"notBefore,omitempty" doc:"Reject earlier values; timestamps and dates."`
	NotAfter        string          `json:"notAfter,omitempty" doc:"Reject later values; timestamps and dates."`
	Round           bool            `json:"round,omitempty" doc:"Round to the digits of the type, halves to the even digit; decimals."`
	ParseText       bool            `json:"parseText,omitempty" doc:"Take a text as a JSON document; json."`
	AnyKind         bool            `json:"anyKind,omitempty" doc:"Take objects and arrays too, as compact JSON; string."`
	ElsePath        string          `json:"elsePath,omitempty" doc:"Second field, for a field that is null or missing; typed columns of type path."`
	ElseArrival     bool            `json:"elseArrival,omitempty" doc:"Store the time of arrival instead of NULL; path columns that are timestamps, dates with fromTimestamp, or int64 with epoch."`
	Secret          bool            `json:"secret,omitempty" doc:"Show *** in place of the values of this column in errors and payload tests; the table has the values."`
}

type templateBody struct {
	Language string `json:"language" enum:"jsonnet" doc:"Language of the template; one is known."`
	Content  string `json:"content" minLength:"1" maxLength:"4096" doc:"Text of the template."`
}

// UnmarshalJSON reads a column of a request that was checked by its schema. It keeps options that the type of the column does
// not have. The mapping refuses them.
func (c *mappedColumn) UnmarshalJSON(text []byte) error {
	for _, kind := range []mapping.Type{mapping.TypePath, mapping.TypeTemplate} {
		member := string(kind) // it has the name of the type
		if gjson.GetBytes(text, "type").String() == member && gjson.GetBytes(text, member).Type == gjson.Null {
			*c = mappedColumn{mapping.UUID(gjson.GetBytes(text, "name").String()), member}
			return nil
		}
	}
	return c.Column.UnmarshalJSON(text)
}

func bodyColumn(c mapping.Column) mappedColumn { return mappedColumn{Column: c} }
