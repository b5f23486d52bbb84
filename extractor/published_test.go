package extractor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestPublishedTables has records, and the tables that the published extractor made of them, byte for byte: link values, the order of columns, a
// value that becomes a list, a filter, and children at three levels with their requests.
func TestPublishedTables(t *testing.T) {
	t.Parallel()
	const john, jane = "users_8505d6585e28c00d461ba64f085d1055", "users_ec8c48efecb10334072f03a860113ea2"
	for _, test := range []struct {
		name, jobs        string
		answers, requests []string
		files             map[string]string
	}{
		{
			name: "lists", jobs: `{"endpoint": "users", "dataField": "members"}`, requests: []string{"GET /users"},
			answers: []string{`{"members": [{"id": 123, "name": "John Doe", "tags": ["active", "admin"]}, {"id": 234, "name": "Jane Doe", "tags": ["active"]}]}`},
			files: map[string]string{
				"b.users":               lines(`'id','name','tags'`, `'123','John Doe','users_3ca896f39b257a4f2d2f4784e7680c87'`, `'234','Jane Doe','users_a15f4be71e739e1b2ea32bd4209d756e'`),
				"b.users_tags":          lines(`'data','JSON_parentId'`, `'active','users_3ca896f39b257a4f2d2f4784e7680c87'`, `'admin','users_3ca896f39b257a4f2d2f4784e7680c87'`, `'active','users_a15f4be71e739e1b2ea32bd4209d756e'`),
				"b.users_tags.manifest": `{"destination":"in.c-b.users_tags","incremental":false}`,
			},
		},
		{
			name: "objects in lists", jobs: `{"endpoint": "users"}`, requests: []string{"GET /users"},
			answers: []string{`{"members": [{"id": 123, "name": "John Doe", "contacts": [{"type": "address", "properties": {"street": "Elm Street", "city": "New York"}},
				{"type": "email", "primary": true, "properties": {"address": "john.doe@example.com"}}]},
				{"id": 234, "name": "Jane Doe", "contacts": [{"type": "address", "primary": false, "properties": {"street": "Bates Street", "city": "Chicago", "state": "USA"}},
				{"type": "phone", "primary": true, "properties": {"number": "123 456 789"}}]}]}`},
			files: map[string]string{
				"b.users": lines(`'id','name','contacts'`, `'123','John Doe','`+john+`'`, `'234','Jane Doe','`+jane+`'`),
				"b.users_contacts": lines(
					`'type','properties_street','properties_city','properties_address','properties_state','properties_number','primary','JSON_parentId'`,
					`'address','Elm Street','New York','','','','','`+john+`'`, `'email','','','john.doe@example.com','','','1','`+john+`'`,
					`'address','Bates Street','Chicago','','USA','','','`+jane+`'`, `'phone','','','','','123 456 789','1','`+jane+`'`,
				),
			},
		},
		{
			name: "a value that becomes a list", jobs: `{"endpoint": "users", "dataField": "members"}`, requests: []string{"GET /users"},
			answers: []string{`{"members": [{"id": 123, "name": "John Doe", "tags": "active"}, {"id": 234, "name": "Jane Doe", "tags": ["active", "admin"]}]}`},
			files: map[string]string{
				"b.users":      lines(`'id','name','tags'`, `'123','John Doe','users_c6f3e32262682b6efd6c85ad97d2d503'`, `'234','Jane Doe','users_92df9d5b9af8821316172285b196318e'`),
				"b.users_tags": lines(`'data','JSON_parentId'`, `'active','users_c6f3e32262682b6efd6c85ad97d2d503'`, `'active','users_92df9d5b9af8821316172285b196318e'`, `'admin','users_92df9d5b9af8821316172285b196318e'`),
			},
		},
		{
			name: "a filter with another delimiter", requests: []string{"GET /users"},
			jobs: `{"endpoint": "users", "dataField": "members", "responseFilter": "secondary.address", "responseFilterDelimiter": "#"}`,
			answers: []string{`{"members": [{"id": 123, "name": "John Doe", "primary.address": {"street": "Elm Street", "city": "New York"}, "secondary.address": {"street": "Cemetery Ridge", "city": "New York"}},
				{"id": 234, "name": "Jane Doe", "primary.address": {"street": " Blossom Avenue", "state": "U.K."}, "secondary.address": {"street": "1313 Webfoot Walk", "city": "Duckburg", "state": "Calisota"}}]}`},
			files: map[string]string{"b.users": lines(
				`'id','name','primary_address_street','primary_address_city','primary_address_state','secondary_address'`,
				`'123','John Doe','Elm Street','New York','','{''street'':''Cemetery Ridge'',''city'':''New York''}'`,
				`'234','Jane Doe',' Blossom Avenue','','U.K.','{''street'':''1313 Webfoot Walk'',''city'':''Duckburg'',''state'':''Calisota''}'`,
			)},
		},
		{
			name: "children",
			jobs: `{"endpoint": "users", "children": [{"endpoint": "user/{1:user-id}", "dataField": ".", "dataType": "user-detail", "placeholders": {"1:user-id": "userId"}, "children": [
				{"endpoint": "user/{2:user-id}/orders", "dataType": "orders", "placeholders": {"2:user-id": "userId"}, "children": [
				{"endpoint": "user/{3:user-id}/order/{1:order-id}", "dataType": "order-detail", "dataField": ".", "placeholders": {"3:user-id": "userId", "1:order-id": "orderId"}}]}]}]}`,
			requests: []string{
				"GET /users", "GET /user/123", "GET /user/123/orders", "GET /user/123/order/1234", "GET /user/123/order/1345", "GET /user/234", "GET /user/234/orders",
				"GET /user/234/order/2345",
			},
			answers: []string{
				`[{"userId": 123, "name": "John Doe"}, {"userId": 234, "name": "Jane Doe"}]`, `{"userId": 123, "name": "John Doe", "description": "Good ol' father John"}`,
				`[{"orderId": "1234", "price": "$12"}, {"orderId": "1345", "price": "$1212"}]`, `{"orderId": 1234, "price": "$12", "timestamp": "2017-05-06 8:21:45", "state": "cancelled"}`,
				`{"orderId": 1345, "price": "$1212", "timestamp": "2017-12-24 12:30:53", "state": "delivered"}`, `{"userId": 234, "name": "Jane Doe", "description": "Good young mommy Jenny"}`,
				`[{"orderId": "2345", "price": "$42"}]`, `{"orderId": 2345, "price": "$42", "timestamp": "2017-01-12 2:12:43", "state": "cancelled"}`,
			},
			files: map[string]string{"b.order-detail": lines(
				`'orderId','price','timestamp','state','parent_userId','parent_orderId'`, `'1234','$12','2017-05-06 8:21:45','cancelled','123','1234'`,
				`'1345','$1212','2017-12-24 12:30:53','delivered','123','1345'`, `'2345','$42','2017-01-12 2:12:43','cancelled','234','2345'`,
			)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, test.answers...)
			files, _, err := saveTables(t, a, config("", `"outputBucket": "b", "jobs": [`+test.jobs+`]`), extractor.State{})
			checkError(t, err, "")
			for name, want := range test.files {
				if files[name] != want {
					t.Errorf("%s is\n%s\nwant\n%s", name, files[name], want)
				}
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			for i := range a.requests {
				a.requests[i] = strings.Replace(a.requests[i], "http://h", "", 1)
			}
			if !slices.Equal(a.requests, test.requests) {
				t.Errorf("requests %q, want %q", a.requests, test.requests)
			}
		})
	}
}
