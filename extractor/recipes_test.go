package extractor_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/synctest"
)

// An exchange is a request that a recipe must send, and the response of the mock. The request has its body and the headers that are not usual.
type exchange struct{ request, answer string }

// usualHeaders are left out of the requests of recipes.
var usualHeaders = []string{"User-Agent", "Accept-Encoding"}

// A recipe is a section of docs/extractor.md with the requests that its configuration sends. again are the requests of the next run.
type recipe struct {
	first, again []exchange
	records      []string
}

const (
	jsonBody = " Content-Type=application/json "
	formBody = " Content-Type=application/x-www-form-urlencoded "
	noBody   = ""
)

var recipes = map[string]recipe{
	"GitHub": {
		first: []exchange{
			{"GET https://api.github.com/repos/OWNER/REPO/issues?state=all&sort=updated&direction=asc&per_page=100&since=2024-01-01T00%3A00%3A00Z" + github, "Link: <https://api.github.com/repositories/1/issues?since=2024-01-01T00%3A00%3A00Z&page=2>; rel=\"next\", <https://api.github.com/repositories/1/issues?page=9>; rel=\"last\"\n" + `[{"number": 1, "updated_at": "2024-02-01T10:00:00Z"}]`},
			{"GET https://api.github.com/repositories/1/issues?since=2024-01-01T00%3A00%3A00Z&page=2" + github, "403 X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 946688400\n" + `{"message": "API rate limit exceeded"}`},
			{"GET https://api.github.com/repositories/1/issues?since=2024-01-01T00%3A00%3A00Z&page=2" + github, "X-RateLimit-Remaining: 4999\nX-RateLimit-Reset: 946692000\nLink: <https://api.github.com/repositories/1/issues?page=1>; rel=\"first\"\n" + `[{"number": 2, "updated_at": "2024-02-03T10:00:00Z"}]`},
		},
		again: []exchange{
			{"GET https://api.github.com/repos/OWNER/REPO/issues?state=all&sort=updated&direction=asc&per_page=100&since=2024-02-03T10%3A00%3A00Z" + github, `[{"number": 2, "updated_at": "2024-02-03T10:00:00Z"}]`},
		},
		records: []string{`issues: {"number":1,"updated_at":"2024-02-01T10:00:00Z"}`, `issues: {"number":2,"updated_at":"2024-02-03T10:00:00Z"}`},
	},
	"Stripe": {
		first: []exchange{
			{"GET https://api.stripe.com/v1/charges?limit=100&created%5Bgte%5D=1704067200 Authorization=Bearer KEY", `{"object": "list", "data": [{"id": "ch_3", "created": 1704080000}, {"id": "ch_2", "created": 1704070000}], "has_more": true}`},
			{"GET https://api.stripe.com/v1/charges?limit=100&created%5Bgte%5D=1704067200&starting_after=ch_2 Authorization=Bearer KEY", `{"object": "list", "data": [{"id": "ch_1", "created": 1704067200}], "has_more": false}`},
		},
		again: []exchange{
			{"GET https://api.stripe.com/v1/charges?limit=100&created%5Bgte%5D=1704076400 Authorization=Bearer KEY", `{"object": "list", "data": [{"id": "ch_3", "created": 1704080000}], "has_more": false}`},
		},
		records: []string{`charges: {"id":"ch_3","created":1704080000}`, `charges: {"id":"ch_2","created":1704070000}`, `charges: {"id":"ch_1","created":1704067200}`},
	},
	"Shopify": {
		first: []exchange{
			{"GET https://SHOP.myshopify.com/admin/api/2024-10/orders.json?status=any&limit=250&updated_at_min=2024-01-01T00%3A00%3A00%2B00%3A00 X-Shopify-Access-Token=TOKEN", "Link: <https://SHOP.myshopify.com/admin/api/2024-10/orders.json?limit=250&page_info=abc>; rel=\"next\"\n" + `{"orders": [{"id": 1, "updated_at": "2024-01-02T10:00:00-05:00"}]}`},
			{"GET https://SHOP.myshopify.com/admin/api/2024-10/orders.json?limit=250&page_info=abc X-Shopify-Access-Token=TOKEN", "429 Retry-After: 2.0\n{}"},
			{"GET https://SHOP.myshopify.com/admin/api/2024-10/orders.json?limit=250&page_info=abc X-Shopify-Access-Token=TOKEN", "Link: <https://SHOP.myshopify.com/admin/api/2024-10/orders.json?limit=250&page_info=aaa>; rel=\"previous\"\n" + `{"orders": [{"id": 2, "updated_at": "2024-01-03T10:00:00-05:00"}]}`},
		},
		again: []exchange{
			{"GET https://SHOP.myshopify.com/admin/api/2024-10/orders.json?status=any&limit=250&updated_at_min=2024-01-03T15%3A00%3A00%2B00%3A00 X-Shopify-Access-Token=TOKEN", `{"orders": []}`},
		},
		records: []string{`orders: {"id":1,"updated_at":"2024-01-02T10:00:00-05:00"}`, `orders: {"id":2,"updated_at":"2024-01-03T10:00:00-05:00"}`},
	},
	"HubSpot": {
		first: []exchange{
			{"POST https://api.hubapi.com/crm/v3/objects/contacts/search Authorization=Bearer TOKEN" + jsonBody + `{"filterGroups":[{"filters":[{"propertyName":"lastmodifieddate","operator":"GTE","value":"1704067200000"}]}],"sorts":[{"propertyName":"lastmodifieddate","direction":"ASCENDING"}],"properties":["email","firstname","lastname"],"limit":100}`, `{"total": 2, "results": [{"id": "1", "updatedAt": "2024-01-05T00:00:00.500Z"}], "paging": {"next": {"after": "100"}}}`},
			{"POST https://api.hubapi.com/crm/v3/objects/contacts/search Authorization=Bearer TOKEN" + jsonBody + `{"filterGroups":[{"filters":[{"propertyName":"lastmodifieddate","operator":"GTE","value":"1704067200000"}]}],"sorts":[{"propertyName":"lastmodifieddate","direction":"ASCENDING"}],"properties":["email","firstname","lastname"],"limit":100,"after":"100"}`, `{"total": 2, "results": [{"id": "2", "updatedAt": "2024-01-06T00:00:00Z"}]}`},
		},
		again: []exchange{
			{"POST https://api.hubapi.com/crm/v3/objects/contacts/search Authorization=Bearer TOKEN" + jsonBody + `{"filterGroups":[{"filters":[{"propertyName":"lastmodifieddate","operator":"GTE","value":"1704499200000"}]}],"sorts":[{"propertyName":"lastmodifieddate","direction":"ASCENDING"}],"properties":["email","firstname","lastname"],"limit":100}`, `{"total": 1, "results": [{"id": "2", "updatedAt": "2024-01-06T00:00:00Z"}]}`},
		},
		records: []string{`contacts: {"id":"1","updatedAt":"2024-01-05T00:00:00.500Z"}`, `contacts: {"id":"2","updatedAt":"2024-01-06T00:00:00Z"}`},
	},
	"Salesforce": {
		first: []exchange{
			{"POST https://DOMAIN.my.salesforce.com/services/oauth2/token Accept=application/json" + formBody + "grant_type=client_credentials&client_id=CLIENT&client_secret=SECRET", `{"access_token": "at-1", "token_type": "Bearer"}`},
			{"GET https://DOMAIN.my.salesforce.com/services/data/v62.0/query?q=SELECT%20Id%2C%20Name%2C%20SystemModstamp%20FROM%20Account%20WHERE%20SystemModstamp%20%3E%3D%202024-01-01T00%3A00%3A00Z%20ORDER%20BY%20SystemModstamp Authorization=Bearer at-1", `{"totalSize": 2, "done": false, "nextRecordsUrl": "/services/data/v62.0/query/01g-2000", "records": [{"Id": "a", "SystemModstamp": "2024-01-02T00:00:00.000+0000"}]}`},
			{"GET https://DOMAIN.my.salesforce.com/services/data/v62.0/query/01g-2000 Authorization=Bearer at-1", `{"totalSize": 2, "done": true, "records": [{"Id": "b", "SystemModstamp": "2024-01-03T00:00:00.000+0000"}]}`},
		},
		records: []string{`accounts: {"Id":"a","SystemModstamp":"2024-01-02T00:00:00.000+0000"}`, `accounts: {"Id":"b","SystemModstamp":"2024-01-03T00:00:00.000+0000"}`},
	},
	"Zendesk": {
		first: []exchange{
			{"GET https://COMPANY.zendesk.com/api/v2/incremental/tickets/cursor.json?start_time=1704067200 Authorization=Basic " + base64Text("EMAIL/token:TOKEN"), `{"tickets": [{"id": 1, "generated_timestamp": 1704070000}], "after_url": "https://COMPANY.zendesk.com/api/v2/incremental/tickets/cursor.json?cursor=MTU", "after_cursor": "MTU", "end_of_stream": false}`},
			{"GET https://COMPANY.zendesk.com/api/v2/incremental/tickets/cursor.json?cursor=MTU Authorization=Basic " + base64Text("EMAIL/token:TOKEN"), `{"tickets": [{"id": 2, "generated_timestamp": 1704080000}], "after_url": "https://COMPANY.zendesk.com/api/v2/incremental/tickets/cursor.json?cursor=MTY", "end_of_stream": true}`},
		},
		again: []exchange{
			{"GET https://COMPANY.zendesk.com/api/v2/incremental/tickets/cursor.json?start_time=1704080000 Authorization=Basic " + base64Text("EMAIL/token:TOKEN"), `{"tickets": [], "after_url": null, "end_of_stream": true}`},
		},
		records: []string{`tickets: {"id":1,"generated_timestamp":1704070000}`, `tickets: {"id":2,"generated_timestamp":1704080000}`},
	},
	"Slack": {
		first: []exchange{
			{"GET https://slack.com/api/conversations.history?channel=CHANNEL&limit=200&oldest=1704067200.000000 Authorization=Bearer TOKEN", `{"ok": true, "messages": [{"ts": "1704080000.000200", "text": "b"}], "has_more": true, "response_metadata": {"next_cursor": "bmV4dA=="}}`},
			{"GET https://slack.com/api/conversations.history?channel=CHANNEL&limit=200&oldest=1704067200.000000&cursor=bmV4dA%3D%3D Authorization=Bearer TOKEN", `{"ok": true, "messages": [{"ts": "1704070000.000100", "text": "a"}], "has_more": false, "response_metadata": {"next_cursor": ""}}`},
		},
		again: []exchange{
			{"GET https://slack.com/api/conversations.history?channel=CHANNEL&limit=200&oldest=1704080000.000200 Authorization=Bearer TOKEN", `{"ok": true, "messages": [], "has_more": false}`},
		},
		records: []string{`messages: {"ts":"1704080000.000200","text":"b"}`, `messages: {"ts":"1704070000.000100","text":"a"}`},
	},
	"Google Drive": {
		first: []exchange{
			{"POST https://oauth2.googleapis.com/token Accept=application/json" + formBody + "grant_type=refresh_token&refresh_token=REFRESH&client_id=CLIENT&client_secret=SECRET", `{"access_token": "at-1", "token_type": "Bearer", "expires_in": 3599}`},
			{"GET https://www.googleapis.com/drive/v3/files?pageSize=1000&orderBy=modifiedTime&fields=nextPageToken%2Cfiles%28id%2Cname%2CmodifiedTime%29&q=modifiedTime%20%3E%3D%20%272024-01-01T00%3A00%3A00%27 Authorization=Bearer at-1", `{"nextPageToken": "~!!~A", "files": [{"id": "a", "modifiedTime": "2024-03-01T00:00:00.000Z"}]}`},
			{"GET https://www.googleapis.com/drive/v3/files?pageSize=1000&orderBy=modifiedTime&fields=nextPageToken%2Cfiles%28id%2Cname%2CmodifiedTime%29&q=modifiedTime%20%3E%3D%20%272024-01-01T00%3A00%3A00%27&pageToken=~%21%21~A Authorization=Bearer at-1", `{"files": [{"id": "b", "modifiedTime": "2024-03-02T00:00:00.000Z"}]}`},
		},
		records: []string{`files: {"id":"a","modifiedTime":"2024-03-01T00:00:00.000Z"}`, `files: {"id":"b","modifiedTime":"2024-03-02T00:00:00.000Z"}`},
	},
	"Jira": {
		first: []exchange{
			{"GET https://COMPANY.atlassian.net/rest/api/3/search/jql?jql=updated%20%3E%3D%20%222024%2F01%2F01%2000%3A00%22%20ORDER%20BY%20updated%20ASC&fields=summary%2Cstatus%2Cupdated&maxResults=100 Authorization=Basic " + base64Text("EMAIL:TOKEN"), `{"issues": [{"key": "A-1", "fields": {"updated": "2024-01-05T10:00:00.000+0200"}}], "nextPageToken": "CAE", "isLast": false}`},
			{"GET https://COMPANY.atlassian.net/rest/api/3/search/jql?jql=updated%20%3E%3D%20%222024%2F01%2F01%2000%3A00%22%20ORDER%20BY%20updated%20ASC&fields=summary%2Cstatus%2Cupdated&maxResults=100&nextPageToken=CAE Authorization=Basic " + base64Text("EMAIL:TOKEN"), `{"issues": [{"key": "A-2", "fields": {"updated": "2024-01-06T10:00:00.000+0200"}}], "isLast": true}`},
		},
		again: []exchange{
			{"GET https://COMPANY.atlassian.net/rest/api/3/search/jql?jql=updated%20%3E%3D%20%222024%2F01%2F05%2008%3A00%22%20ORDER%20BY%20updated%20ASC&fields=summary%2Cstatus%2Cupdated&maxResults=100 Authorization=Basic " + base64Text("EMAIL:TOKEN"), `{"issues": [{"key": "A-2", "fields": {"updated": "2024-01-06T10:00:00.000+0200"}}], "isLast": true}`},
		},
		records: []string{`issues: {"key":"A-1","fields":{"updated":"2024-01-05T10:00:00.000+0200"}}`, `issues: {"key":"A-2","fields":{"updated":"2024-01-06T10:00:00.000+0200"}}`},
	},
	"Notion": {
		first: []exchange{
			{"POST https://api.notion.com/v1/databases/DATABASE/query Authorization=Bearer TOKEN Notion-Version=2022-06-28" + jsonBody + `{"page_size":100,"filter":{"timestamp":"last_edited_time","last_edited_time":{"on_or_after":"2024-01-01T00:00:00+00:00"}},"sorts":[{"timestamp":"last_edited_time","direction":"ascending"}]}`, `{"object": "list", "results": [{"id": "p1", "last_edited_time": "2024-01-02T00:00:00.000Z", "properties": {"Name": {"title": []}}}], "has_more": true, "next_cursor": "c-2"}`},
			{"POST https://api.notion.com/v1/databases/DATABASE/query Authorization=Bearer TOKEN Notion-Version=2022-06-28" + jsonBody + `{"page_size":100,"filter":{"timestamp":"last_edited_time","last_edited_time":{"on_or_after":"2024-01-01T00:00:00+00:00"}},"sorts":[{"timestamp":"last_edited_time","direction":"ascending"}],"start_cursor":"c-2"}`, `{"object": "list", "results": [], "has_more": false, "next_cursor": null}`},
		},
		records: []string{`pages: {"id":"p1","last_edited_time":"2024-01-02T00:00:00.000Z","properties":"{\"Name\":{\"title\":[]}}"}`},
	},
	"GraphQL": {
		first: []exchange{
			{"POST https://API.example.com/graphql Authorization=Bearer TOKEN" + jsonBody + graphQuery + `"variables":{"first":100}}`, `{"data": {"orders": {"nodes": [{"id": 1}], "pageInfo": {"endCursor": "Y1", "hasNextPage": true}}}}`},
			{"POST https://API.example.com/graphql Authorization=Bearer TOKEN" + jsonBody + graphQuery + `"variables":{"first":100,"after":"Y1"}}`, `{"data": {"orders": {"nodes": [{"id": 2}], "pageInfo": {"endCursor": "Y2", "hasNextPage": false}}}}`},
		},
		records: []string{`orders: {"id":1}`, `orders: {"id":2}`},
	},
	"Airtable": {
		first: []exchange{
			{"GET https://api.airtable.com/v0/BASE/Table%20name?pageSize=100 Authorization=Bearer TOKEN", `{"records": [{"id": "rec1", "fields": {"a": 1}}], "offset": "itr/rec1"}`},
			{"GET https://api.airtable.com/v0/BASE/Table%20name?pageSize=100&offset=itr%2Frec1 Authorization=Bearer TOKEN", `{"records": [{"id": "rec2", "fields": {}}]}`},
		},
		records: []string{`records: {"id":"rec1","fields":{"a":1}}`, `records: {"id":"rec2","fields":{}}`},
	},
	"Mailchimp": {
		first: []exchange{
			{"GET https://DC.api.mailchimp.com/3.0/lists/LIST/members?sort_field=last_changed&sort_dir=ASC&since_last_changed=2024-01-01T00%3A00%3A00%2B00%3A00&count=1000&offset=0 Authorization=Basic " + base64Text("any:KEY"), `{"members": [` + strings.Repeat(`{"id": "m", "last_changed": "2023-01-01T00:00:00+00:00"},`, 999) + `{"id": "m1", "last_changed": "2024-01-02T00:00:00+00:00"}], "list_id": "LIST", "total_items": 1001}`},
			{"GET https://DC.api.mailchimp.com/3.0/lists/LIST/members?sort_field=last_changed&sort_dir=ASC&since_last_changed=2024-01-01T00%3A00%3A00%2B00%3A00&count=1000&offset=1000 Authorization=Basic " + base64Text("any:KEY"), `{"members": [{"id": "m2", "last_changed": "2024-01-03T00:00:00+00:00"}], "list_id": "LIST", "total_items": 1001}`},
		},
		records: []string{`members: {"id":"m1","last_changed":"2024-01-02T00:00:00+00:00"}`, `members: {"id":"m2","last_changed":"2024-01-03T00:00:00+00:00"}`},
	},
	"Intercom": {
		first: []exchange{
			{"POST https://api.intercom.io/contacts/search Authorization=Bearer TOKEN Intercom-Version=2.11" + jsonBody + `{"query":{"field":"updated_at","operator":">","value":1704067200},"sort":{"field":"updated_at","order":"ascending"},"pagination":{"per_page":150}}`, `{"type": "list", "data": [{"id": "1", "updated_at": 1704100000}], "total_count": 2, "pages": {"type": "pages", "page": 1, "per_page": 150, "total_pages": 2, "next": {"page": 2, "starting_after": "W1"}}}`},
			{"POST https://api.intercom.io/contacts/search Authorization=Bearer TOKEN Intercom-Version=2.11" + jsonBody + `{"query":{"field":"updated_at","operator":">","value":1704067200},"sort":{"field":"updated_at","order":"ascending"},"pagination":{"per_page":150,"starting_after":"W1"}}`, `{"type": "list", "data": [{"id": "2", "updated_at": 1704200000}], "total_count": 2, "pages": {"type": "pages", "page": 2, "per_page": 150, "total_pages": 2}}`},
		},
		records: []string{`contacts: {"id":"1","updated_at":1704100000}`, `contacts: {"id":"2","updated_at":1704200000}`},
	},
	"Xero": {
		first: []exchange{
			{"POST https://identity.xero.com/connect/token Accept=application/json Authorization=Basic " + base64Text("CLIENT:SECRET") + " Xero-Tenant-Id=TENANT" + formBody + "grant_type=refresh_token&refresh_token=REFRESH", `{"access_token": "at-1", "refresh_token": "rt-1", "token_type": "Bearer", "expires_in": 1800}`},
			{"GET https://api.xero.com/api.xro/2.0/Invoices?order=UpdatedDateUTC&where=UpdatedDateUTC%3E%3DDateTime%281970%2C1%2C1%29&page=1" + xero, `{"Id": "x", "Status": "OK", "Invoices": [{"InvoiceID": "i1"}]}`},
			{"GET https://api.xero.com/api.xro/2.0/Invoices?order=UpdatedDateUTC&where=UpdatedDateUTC%3E%3DDateTime%281970%2C1%2C1%29&page=2" + xero, `{"Id": "y", "Status": "OK", "Invoices": []}`},
		},
		again: []exchange{
			{"POST https://identity.xero.com/connect/token Accept=application/json Authorization=Basic " + base64Text("CLIENT:SECRET") + " Xero-Tenant-Id=TENANT" + formBody + "grant_type=refresh_token&refresh_token=rt-1", `{"access_token": "at-1", "refresh_token": "rt-2", "token_type": "Bearer", "expires_in": 1800}`},
			{"GET https://api.xero.com/api.xro/2.0/Invoices?order=UpdatedDateUTC&where=UpdatedDateUTC%3E%3DDateTime%282000%2C1%2C1%29&page=1" + xero, `{"Id": "z", "Status": "OK", "Invoices": []}`},
		},
		records: []string{`Invoices: {"InvoiceID":"i1"}`},
	},
	"Microsoft Graph": {
		first: []exchange{
			{"POST https://login.microsoftonline.com/TENANT/oauth2/v2.0/token Accept=application/json" + formBody + "scope=https%3A%2F%2Fgraph.microsoft.com%2F.default&grant_type=client_credentials&client_id=CLIENT&client_secret=SECRET", `{"access_token": "at-1", "token_type": "Bearer", "expires_in": 3599}`},
			{"GET https://graph.microsoft.com/v1.0/users?%24select=id%2CdisplayName%2Cmail&%24top=999 Authorization=Bearer at-1", `{"@odata.context": "c", "@odata.nextLink": "https://graph.microsoft.com/v1.0/users?$skiptoken=X", "value": [{"id": "u1"}]}`},
			{"GET https://graph.microsoft.com/v1.0/users?%24skiptoken=X Authorization=Bearer at-1", `{"@odata.context": "c", "value": [{"id": "u2"}]}`},
		},
		records: []string{`users: {"id":"u1"}`, `users: {"id":"u2"}`},
	},
	"Facebook": {
		first: []exchange{
			{facebook("1999-12-29") + "&access_token=TOKEN", `{"data": [{"ad_id": "1"}], "paging": {"cursors": {"after": "a"}, "next": "https://graph.facebook.com/v21.0/act_1/insights?access_token=TOKEN&limit=500&after=a"}}`},
			{"GET https://graph.facebook.com/v21.0/act_1/insights?limit=500&after=a&access_token=TOKEN", `400 {"error": {"code": 17, "message": "User request limit reached"}}`},
			{"GET https://graph.facebook.com/v21.0/act_1/insights?limit=500&after=a&access_token=TOKEN", `{"data": [{"ad_id": "2"}], "paging": {"cursors": {"after": "b"}}}`},
			{facebook("1999-12-30") + "&access_token=TOKEN", `{"data": []}`},
			{facebook("1999-12-31") + "&access_token=TOKEN", `{"data": []}`},
		},
		again: []exchange{
			{facebook("1999-12-29") + "&access_token=TOKEN", `{"data": []}`}, {facebook("1999-12-30") + "&access_token=TOKEN", `{"data": []}`}, {facebook("1999-12-31") + "&access_token=TOKEN", `{"data": []}`},
		},
		records: []string{`insights: {"ad_id":"1"}`, `insights: {"ad_id":"2"}`},
	},
	"S3": {
		first: []exchange{
			{"GET https://BUCKET.s3.REGION.amazonaws.com/?list-type=2&prefix=logs%2F&max-keys=1000" + noBody, `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>BUCKET</Name><IsTruncated>true</IsTruncated><NextContinuationToken>1ueG/=</NextContinuationToken><Contents><Key>logs/a</Key><Size>1</Size></Contents></ListBucketResult>`},
			{"GET https://BUCKET.s3.REGION.amazonaws.com/?list-type=2&prefix=logs%2F&max-keys=1000&continuation-token=1ueG%2F%3D" + noBody, `<ListBucketResult><Name>BUCKET</Name><IsTruncated>false</IsTruncated><Contents><Key>logs/b</Key><Size>2</Size></Contents></ListBucketResult>`},
		},
		records: []string{`objects: {"Key":"logs/a","Size":"1"}`, `objects: {"Key":"logs/b","Size":"2"}`},
	},
	"Mixpanel": {
		first: []exchange{
			{"GET https://data.mixpanel.com/api/2.0/export?project_id=PROJECT&from_date=1999-12-30&to_date=1999-12-30" + mixpanel, "{\"event\": \"a\"}\n{\"event\": \"b\"}\n"},
			{"GET https://data.mixpanel.com/api/2.0/export?project_id=PROJECT&from_date=1999-12-31&to_date=1999-12-31" + mixpanel, ""},
		},
		again:   []exchange{},
		records: []string{`events: {"event":"a"}`, `events: {"event":"b"}`},
	},
	"An asynchronous report": {
		first: []exchange{
			{"POST https://API.example.com/v1/reports Authorization=Bearer TOKEN" + jsonBody + `{"kind":"sales","day":"2000-01-01"}`, `{"report_id": 7}`},
			{"GET https://API.example.com/v1/reports/7 Authorization=Bearer TOKEN", `{"status": "queued"}`},
			{"GET https://API.example.com/v1/reports/7 Authorization=Bearer TOKEN", `{"status": "running"}`},
			{"GET https://API.example.com/v1/reports/7 Authorization=Bearer TOKEN", `{"status": "done", "download_url": "https://files.example.org/7.csv?sig=abc"}`},
			{"GET https://files.example.org/7.csv?sig=abc" + noBody, "sku,sold\nS-1,5\n"},
		},
		records: []string{
			`orders: {"report_id":7}`, `reports: {"status":"done","download_url":"https://files.example.org/7.csv?sig=abc","parent_report_id":"7"}`,
			`sales: {"sku":"S-1","sold":"5","parent_report_id":"7","parent_download_url":"https://files.example.org/7.csv?sig=abc"}`,
		},
	},
}

const (
	github     = " Accept=application/vnd.github+json Authorization=Bearer TOKEN X-Github-Api-Version=2022-11-28"
	xero       = " Accept=application/json Authorization=Bearer at-1 Xero-Tenant-Id=TENANT"
	graphQuery = `{"query":"query($first: Int!, $after: String) { orders(first: $first, after: $after) { nodes { id total } pageInfo { endCursor hasNextPage } } }",`
)

var mixpanel = " Authorization=Basic " + base64Text("SERVICE-ACCOUNT:SECRET")

func facebook(day string) string {
	return "GET https://graph.facebook.com/v21.0/act_ACCOUNT/insights?level=ad&fields=ad_id%2Cimpressions%2Cspend&limit=500&time_range%5Bsince%5D=" + day + "&time_range%5Buntil%5D=" + day
}

// TestRecipes runs every configuration of docs/extractor.md twice. Each request must equal the next request that the mock of the API expects. No page
// may end a job while the response says that there is more.
func TestRecipes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/extractor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, found := strings.Cut(string(text), "\n## Recipes\n")
	if !found {
		t.Fatal("the page has no recipes")
	}
	sections := strings.Split(page, "\n### ")[1:]
	if len(sections) != len(recipes) {
		t.Errorf("got %d sections for %d recipes, want %v", len(sections), len(recipes), len(recipes))
	}
	for _, section := range sections {
		name, body, _ := strings.Cut(section, "\n")
		_, body, _ = strings.Cut(body, "```json\n")
		cfg, _, found := strings.Cut(body, "```")
		t.Run(name, func(t *testing.T) {
			r, ok := recipes[name]
			if !ok || !found {
				t.Fatalf("the section has a configuration: %v, and requests: %v", found, ok)
			}
			synctest.Test(t, func(t *testing.T) {
				state, records := runRecipe(t, cfg, extractor.State{}, r.first)
				if same(t, "records", records, r.records); r.again == nil {
					return
				}
				if _, records = runRecipe(t, cfg, state, r.again); len(records) > 0 {
					t.Errorf("the second run delivers %q again", records)
				}
			})
		})
	}
}

// runRecipe runs a configuration against a script of requests and responses.
func runRecipe(t *testing.T, text string, state extractor.State, script []exchange) (next extractor.State, records []string) {
	t.Helper()
	cfg, err := extractor.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if w := cfg.Warnings(); len(w) > 0 {
		t.Errorf("warnings %v", w)
	}
	var got []string
	transport := transportFunc(func(r *http.Request) (*http.Response, error) {
		got = append(got, describe(t, r))
		answer := "400 the mock expects another request"
		if n := len(got); n <= len(script) && got[n-1] == script[n-1].request {
			answer = script[n-1].answer
		}
		w := httptest.NewRecorder()
		writeAnswer(w, answer)
		return w.Result(), nil
	})
	next, err = extractor.Run(t.Context(), cfg, state, extractor.Options{
		Transport: transport, Strict: true,
		Emit: func(_ context.Context, p *extractor.Page) error {
			for rec := range p.Records() {
				records = append(records, p.DataType+": "+string(rec.JSON()))
			}
			return nil
		},
	})
	checkError(t, err, "")
	want := make([]string, len(script))
	for i, e := range script {
		want[i] = e.request
	}
	same(t, "requests", got, want)
	return next, records
}

// describe is a request as a line, with method, URL, headers in order of their names, and body.
func describe(t *testing.T, r *http.Request) string {
	t.Helper()
	line := r.Method + " " + r.URL.String()
	var names []string
	for name := range r.Header {
		if !slices.Contains(usualHeaders, name) && name != "Content-Type" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if r.Header.Get("Content-Type") != "" { // next to the body
		names = append(names, "Content-Type")
	}
	for _, name := range names {
		line += " " + name + "=" + strings.Join(r.Header.Values(name), ",")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	if len(body) > 0 {
		line += " " + string(body)
	}
	return line
}
