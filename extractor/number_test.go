package extractor_test

import (
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestLargeNumbers takes ids that neither an int64 nor a float64 holds through cursors, tokens and placeholders.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	const job = `"jobs": [{"endpoint": "u"}]`
	cursor := func(s string) string {
		return `"pagination": {"method": "cursor", "idKey": "id", "param": "after"` + s + `}`
	}
	for _, s := range []story{
		{
			name: "cursor", api: cursor(""), config: job, answers: []string{`[{"id": 18446744073709551000}, {"id": 18446744073709551001}]`, `[{"id": "18446744073709551615"}, {"id": 5}]`, `[{"id": 18446744073709551616}]`, `[]`},
			requests: []string{"GET /u", "GET /u?after=18446744073709551001", "GET /u?after=18446744073709551615", "GET /u?after=18446744073709551616"},
			records:  []string{`u: {"id":18446744073709551000}`, `u: {"id":18446744073709551001}`, `u: {"id":"18446744073709551615"}`, `u: {"id":5}`, `u: {"id":18446744073709551616}`},
		},
		{name: "increment", api: cursor(`, "increment": 1`), config: job, answers: []string{`[{"id": 9223372036854775807}]`, `[]`}, requests: []string{"GET /u", "GET /u?after=9223372036854775808"}},
		{
			name: "decrement", api: cursor(`, "increment": -1, "reverse": true`), config: job, answers: []string{`[{"id": -9223372036854775808}, {"id": 1}]`, `[{"id": -1e19}]`, `[]`},
			requests: []string{"GET /u", "GET /u?after=-9223372036854775809", "GET /u?after=-10000000000000000001"},
		},
		{name: "fractions are cut", api: cursor(""), config: job, answers: []string{`[{"id": 18446744073709551615.9}, {"id": 1.5}]`, `[]`}, requests: []string{"GET /u", "GET /u?after=18446744073709551615"}},
		{name: "no id", api: cursor(""), config: job, answers: []string{`[{"id": 1e5000}]`}, requests: []string{"GET /u"}, err: `the cursor "id" of item 0 is beyond all ids`},
		{
			name: "token", api: `"pagination": {"method": "response.param", "responseParam": "n", "queryParam": "n"}`, config: job,
			answers:  []string{`{"d": [1], "n": 18446744073709551615}`, `{"d": [2], "n": 9007199254740993.5}`, `{"d": [3], "n": 20000000000000000000}`, `{"d": []}`},
			requests: []string{"GET /u", "GET /u?n=18446744073709551615", "GET /u?n=9007199254740993.5", "GET /u?n=20000000000000000000"},
		},
		{
			name: "token in a body", api: `"pagination": {"method": "response.param", "responseParam": "n", "queryParam": "n"}`, config: `"jobs": [{"endpoint": "u", "method": "POST"}]`,
			answers: []string{`{"d": [1], "n": 18446744073709551615}`, `{"d": []}`}, requests: []string{"POST /u application/json []", `POST /u application/json {"n":18446744073709551615}`},
		},
		{
			name: "placeholder and filter", config: `"jobs": [{"endpoint": "u", "children": [{"endpoint": "v/{id}", "placeholders": {"id": "id"}, "recursionFilter": "id>18446744073709551000"}]}]`,
			answers: []string{`[{"id": 18446744073709551000}, {"id": 18446744073709551001}, {"id": 9}]`, `[{"x": 0.12345678901234567890}]`}, requests: []string{"GET /u", "GET /v/18446744073709551001"},
			records: []string{`u: {"id":18446744073709551000}`, `u: {"id":18446744073709551001}`, `u: {"id":9}`, `v/{id}: {"x":0.12345678901234567890,"parent_id":"18446744073709551001"}`},
		},
		{
			name: "pages that differ in the last digit", api: `"pagination": {"method": "pagenum"}`, config: job, answers: []string{`[18446744073709551000]`, `[18446744073709551001]`, `[]`},
			requests: []string{"GET /u?page=1", "GET /u?page=2", "GET /u?page=3"}, records: []string{`u: {"data":18446744073709551000}`, `u: {"data":18446744073709551001}`},
		},
		{
			name: "offsets end", api: `"pagination": {"method": "offset", "limit": 1, "offsetFromJob": true}`, config: `"jobs": [{"endpoint": "u", "params": {"offset": 9223372036854775807}}]`, answers: []string{`[1]`},
			requests: []string{"GET /u?offset=9223372036854775807&limit=1"}, err: "there is no offset after 9223372036854775807",
		},
		{
			name: "an offset that is too large", api: `"pagination": {"method": "offset", "limit": 1, "offsetFromJob": true}`, config: `"jobs": [{"endpoint": "u", "params": {"offset": "9223372036854775808"}}]`, answers: []string{`[1]`},
			requests: []string{"GET /u?offset=9223372036854775808&limit=1"}, err: `the parameter "offset" of the job is beyond all offsets`,
		},
		{
			name: "pages end", api: `"pagination": {"method": "pagenum", "firstPage": 9223372036854775807}`, config: job, answers: []string{`[1]`},
			requests: []string{"GET /u?page=9223372036854775807"}, err: "there is no page after 9223372036854775807",
		},
		{
			name: "a total beyond all counting", api: `"pagination": {"method": "pagenum", "limitStop": {"field": "total"}}`, config: job, answers: []string{`{"total": 18446744073709551615, "d": [1]}`, `{"d": []}`},
			requests: []string{"GET /u?page=1", "GET /u?page=2"},
		},
	} {
		s.run(t)
	}
}

// TestLargeNumbersInTables has cells as the service writes them, and links that distinguish rows.
func TestLargeNumbersInTables(t *testing.T) {
	t.Parallel()
	files, _, err := saveTables(t, newAPI(t, `[{"id": 18446744073709551000, "l": [1]}, {"id": 18446744073709551001, "l": [2]}]`), config("", `"jobs": [{"endpoint": "t"}]`), extractor.State{})
	checkError(t, err, "")
	one, two := link("t", `O:8:"stdClass":2:{s:2:"id";d:18446744073709551000;s:1:"l";a:1:{i:0;i:1;}}`), link("t", `O:8:"stdClass":2:{s:2:"id";d:18446744073709551001;s:1:"l";a:1:{i:0;i:2;}}`)
	checkFiles(t, files, map[string]string{
		"t": lines(`'id','l'`, `'1.844674407371E+19','`+one+`'`, `'1.844674407371E+19','`+two+`'`), "t_l": lines(`'data','JSON_parentId'`, `'1','`+one+`'`, `'2','`+two+`'`),
	})
}
