package extractor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
)

// TestPublishedTables has the configurations and records of published examples, and the tables that the published extractor made of them, byte
// for byte. The examples cover link values, the order of columns, a value that becomes a list, a filter, children at three levels, tables laid out
// by hand, and logins with OAuth 2 credentials and their requests. The documentation shows no link values for the table of the values in a list, and no
// order of rows for children in the table of their parents.
func TestPublishedTables(t *testing.T) {
	t.Parallel()
	const john, jane = "users_8505d6585e28c00d461ba64f085d1055", "users_ec8c48efecb10334072f03a860113ea2"
	for _, test := range []struct {
		name, jobs        string
		api, config, root string   // more of the sections
		headers           []string // of requests
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
		{
			name: "a table of the values in a list", jobs: `{"endpoint": "users"}`, requests: []string{"GET /users"},
			config: `, "mappings": {"users": {"name": {"type": "column", "mapping": {"destination": "name"}}, "id": {"type": "column", "mapping": {"destination": "id"}},
				"interests": {"type": "table", "destination": "user-interests", "tableMapping": {".": {"type": "column", "mapping": {"destination": "interest"}}}}}}`,
			answers: []string{`[{"id": 123, "name": "John Doe", "address": {"street": "Blossom Avenue", "country": "United Kingdom"}, "interests": ["girls", "cars", "flowers"]},
				{"id": 234, "name": "Jane Doe", "address": {"street": "Whiteheaven Mansions", "city": "London", "country": "United Kingdom"}, "interests": ["boys", "cars", "flowers"]}]`},
			files: map[string]string{
				"b.users": lines(`'name','id','user-interests'`, `'John Doe','123','dab021748b7f93c10476ebe151de4459'`, `'Jane Doe','234','cd4732272da7597d0ad5f35ff1d34c3d'`),
				"b.user-interests": lines(`'interest','users_pk'`, `'girls','dab021748b7f93c10476ebe151de4459'`, `'cars','dab021748b7f93c10476ebe151de4459'`, `'flowers','dab021748b7f93c10476ebe151de4459'`,
					`'boys','cd4732272da7597d0ad5f35ff1d34c3d'`, `'cars','cd4732272da7597d0ad5f35ff1d34c3d'`, `'flowers','cd4732272da7597d0ad5f35ff1d34c3d'`),
			},
		},
		{
			name: "tables within tables", jobs: `{"endpoint": "users"}`, requests: []string{"GET /users"},
			config: `, "mappings": {"users": {"id": {"type": "column", "mapping": {"destination": "id"}}, "name": {"type": "column", "mapping": {"destination": "name"}},
				"contacts": {"type": "table", "destination": "user-contact", "tableMapping": {"email": {"type": "column", "mapping": {"destination": "email"}}, "phone": {"type": "column", "mapping": {"destination": "tel"}},
				"addresses": {"type": "table", "destination": "user-address", "tableMapping": {"street": {"type": "column", "mapping": {"destination": "street"}}, "country": {"type": "column", "mapping": {"destination": "country"}}}}}}}}`,
			answers: []string{`[{"id": 123, "name": "John Doe", "contacts": {"email": "john.doe@example.com", "phone": "987345765", "addresses": [{"street": "Blossom Avenue", "country": "United Kingdom"},
				{"street": "Whiteheaven Mansions", "city": "London", "country": "United Kingdom"}]}},
				{"id": 234, "name": "Jane Doe", "contacts": {"email": "jane.doe@example.com", "skype": "jane.doe", "addresses": [{"street": "Whiteheaven Mansions", "city": "London", "country": "United Kingdom"}]}}]`},
			files: map[string]string{
				"b.users": lines(`'id','name','user-contact'`, `'123','John Doe','b5d72095c441b3a3d6f23ad8142c3f8b'`, `'234','Jane Doe','5f7f2ab65a680f1a9387a8fafe6b9050'`),
				"b.user-contact": lines(`'email','tel','user-address','users_pk'`, `'john.doe@example.com','987345765','1c439a9a39548290f7b7a4513a9224e7','b5d72095c441b3a3d6f23ad8142c3f8b'`,
					`'jane.doe@example.com','','605e865710f95dba665f6d0e8bc19f1a','5f7f2ab65a680f1a9387a8fafe6b9050'`),
				"b.user-address": lines(`'street','country','user-contact_pk'`, `'Blossom Avenue','United Kingdom','1c439a9a39548290f7b7a4513a9224e7'`,
					`'Whiteheaven Mansions','United Kingdom','1c439a9a39548290f7b7a4513a9224e7'`, `'Whiteheaven Mansions','United Kingdom','605e865710f95dba665f6d0e8bc19f1a'`),
			},
		},
		{
			name: "a key of two columns", jobs: `{"endpoint": "users"}`, requests: []string{"GET /users"},
			config: `, "mappings": {"users": {"firstName": {"mapping": {"destination": "first_name", "primaryKey": true}}, "lastName": {"mapping": {"destination": "last_name", "primaryKey": true}},
				"interests": {"type": "table", "destination": "interests", "tableMapping": {".": {"type": "column", "mapping": {"destination": "interest"}}}}}}`,
			answers: []string{`[{"firstName": "John", "lastName": "Doe", "interests": ["girls", "cars", "flowers"]}, {"firstName": "Jane", "lastName": "Doe", "interests": ["boys", "cars", "flowers"]}]`},
			files: map[string]string{
				"b.users":     lines(`'first_name','last_name'`, `'John','Doe'`, `'Jane','Doe'`),
				"b.interests": lines(`'interest','users_pk'`, `'girls','John,Doe'`, `'cars','John,Doe'`, `'flowers','John,Doe'`, `'boys','Jane,Doe'`, `'cars','Jane,Doe'`, `'flowers','Jane,Doe'`),
			},
		},
		{
			name: "children in the table of their parents", jobs: `{"endpoint": "users"}`, requests: []string{"GET /users"},
			config: `, "mappings": {"users": {"id": {"type": "column", "mapping": {"destination": "id"}}, "name": {"type": "column", "mapping": {"destination": "name"}}, "favoriteColors": {"type": "column", "mapping": {"destination": "colors"}},
				"children": {"type": "table", "destination": "users", "parentKey": {"disable": true}}}}`,
			answers: []string{`[{"id": 123, "name": "John Doe", "children": [{"id": 1234, "name": "Jenny Doe", "favoriteColors": "blue,pink"}, {"id": 1235, "name": "Jimmy Doe", "favoriteColors": "red,green,blue"}]},
				{"id": 234, "name": "Jane Doe", "children": [{"id": 2345, "name": "Janet Doe", "favoriteColors": "black"}]}]`},
			files: map[string]string{"b.users": lines(
				`'id','name','colors'`, `'123','John Doe',''`, `'1234','Jenny Doe','blue,pink'`, `'1235','Jimmy Doe','red,green,blue'`, `'234','Jane Doe',''`, `'2345','Janet Doe','black'`,
			)},
		},
		{
			name: "a login with OAuth 2 credentials", jobs: `{"endpoint": "users", "dataType": "users"}`, headers: []string{"X-Refresh-Token", "X-App-Key", "X-Access-Token"},
			api: `"authentication": {"type": "oauth20.login", "loginRequest": {"endpoint": "token", "headers": {"X-Refresh-Token": {"user": "refresh_token"}, "X-App-Key": {"consumer": "client_id"}}},
				"apiRequest": {"headers": {"X-Access-Token": {"response": "credentials.access_token"}}}}`,
			root:     `, "authorization": {"oauth_api": {"credentials": {"#data": "{\"status\": \"ok\",\"refresh_token\": \"1234abcd5678efgh\"}", "appKey": "someId", "#appSecret": "clientSecret"}}}`,
			answers:  []string{`{"credentials": {"validUntil": "2017-10-04 12:45:09", "access_token": "mkoijn098uhbygv"}}`, `[{"id": 3}]`},
			requests: []string{"GET /token X-Refresh-Token=1234abcd5678efgh X-App-Key=someId", "GET /users X-Access-Token=mkoijn098uhbygv"},
			files:    map[string]string{"b.users": lines(`'id'`, `'3'`)},
		},
		{
			name: "an access token for a refresh token", jobs: `{"endpoint": "/adsense/v1.4/reports/", "dataField": "rows", "dataType": "rows"}`,
			api: `"baseUrl": "http://h", "authentication": {"type": "oauth20.login", "loginRequest": {"endpoint": "/oauth2/v4/token", "method": "FORM", "headers": {"Content-Type": "application/x-www-form-urlencoded"},
				"params": {"client_id": {"consumer": "client_id"}, "client_secret": {"consumer": "client_secret"}, "refresh_token": {"user": "refresh_token"}, "grant_type": "refresh_token"}},
				"apiRequest": {"query": {"access_token": {"response": "access_token"}}}}`,
			root:    `, "authorization": {"oauth_api": {"credentials": {"#data": "{\"access_token\": \"MY_ACCESS_TOKEN\",\"refresh_token\": \"MY_REFRESH_TOKEN\"}", "appKey": "MY_CLIENT_ID", "#appSecret": "MY_CLIENT_SECRET"}}}`,
			answers: []string{`{"access_token": "at/1", "expires_in": 3600, "token_type": "Bearer"}`, `{"rows": [{"date": "2017-01-01", "clicks": 5}]}`},
			requests: []string{
				"POST /oauth2/v4/token application/x-www-form-urlencoded client_id=MY_CLIENT_ID&client_secret=MY_CLIENT_SECRET&refresh_token=MY_REFRESH_TOKEN&grant_type=refresh_token",
				"GET /adsense/v1.4/reports/?access_token=at%2F1",
			},
			files: map[string]string{"b.rows": lines(`'date','clicks'`, `'2017-01-01','5'`)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, test.answers...)
			a.headers = test.headers
			cfg := config(test.api, `"outputBucket": "b", "jobs": [`+test.jobs+`]`+test.config)
			files, _, err := saveTables(t, a, strings.TrimSuffix(cfg, "}")+test.root+"}", extractor.State{})
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
