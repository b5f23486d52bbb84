package platform

import (
	"net/http"

	"github.com/forebay/forebay/storageapi"
)

// operation says what a route takes and gives, for the description of the API. A test holds every route to it.
type operation struct {
	// query has the names of the parameters in the query, body those of the fields of the body, which are described by name
	// because each is accepted in several forms. A field with "!" is required, and "*" stands for fields that are ignored.
	query, body string
	status      int
	// answer is a value of the type of the answer, nil for none, or text for one that is not JSON.
	answer any
	// async says that the answer is 202 with a job when the query says async=true.
	async bool
}

// text is the answer of an operation that is not JSON.
type text string

// Shapes of answers that have no type of their own in package storageapi.
type (
	indexShape struct {
		storageapi.Index
		Components []indexComponentShape `json:"components"`
	}
	indexComponentShape struct {
		storageapi.Component
		// In the brief form alone.
		Ico128     string   `json:"ico128"`
		Features   []string `json:"features"`
		Categories []string `json:"categories"`
	}
	importShape struct {
		storageapi.ImportResult
		Transaction any `json:"transaction"`
	}
	bucketShape struct {
		storageapi.Bucket
		Tables []storageapi.Table `json:"tables"`
	}
	listedBucketShape struct {
		storageapi.Bucket
		Tables string `json:"tables"`
	}
	componentShape struct {
		storageapi.Component
		Configurations []storageapi.Configuration `json:"configurations"`
	}
	idShape struct {
		ID string `json:"id"`
	}
	versionShape struct {
		Version string `json:"version"`
	}
	eventIDShape struct {
		ID   string `json:"id"`
		UUID string `json:"uuid"`
	}
)

const (
	pageQuery      = "limit offset"
	selectionQuery = "limit columns changedSince changedUntil whereFilters orderBy"
	versionsQuery  = pageQuery + " include"
	importBody     = "incremental withoutHeaders columns ignoredLinesCount delimiter enclosure escapedBy treatValuesAsNull deduplicationStrategy useTimestampFromDataFile"
	tableBody      = "name! primaryKey delimiter enclosure escapedBy"
	rowBody        = "name description configuration state isDisabled changeDescription *"
	tokenBody      = "description bucketPermissions componentAccess canManageBuckets canReadAllFileUploads canPurgeTrash expiresIn"
)

// operations are all that are described, by API, method and path.
var operations = map[api]map[string]operation{
	storageAPI: {
		"GET ":     {query: "exclude", status: http.StatusOK, answer: indexShape{}},
		"GET /{$}": {query: "exclude", status: http.StatusOK, answer: indexShape{}},

		"GET /dev-branches":         {status: http.StatusOK, answer: []storageapi.DevBranch{}},
		"POST /dev-branches":        {body: "name! description", status: http.StatusAccepted, answer: storageapi.Job{}},
		"GET /dev-branches/{id}":    {status: http.StatusOK, answer: storageapi.DevBranch{}},
		"PUT /dev-branches/{id}":    {body: "name description", status: http.StatusOK, answer: storageapi.DevBranch{}},
		"DELETE /dev-branches/{id}": {status: http.StatusAccepted, answer: storageapi.Job{}},

		"GET /metadata":               {status: http.StatusOK, answer: []storageapi.Metadata{}},
		"POST /metadata":              {body: "provider metadata", status: http.StatusCreated, answer: []storageapi.Metadata{}},
		"DELETE /metadata/{metadata}": {status: http.StatusNoContent},

		"GET /components":                          {query: "include componentType isDeleted", status: http.StatusOK, answer: []componentShape{}},
		"GET /components/{component}":              {status: http.StatusOK, answer: storageapi.Component{}},
		"GET " + configsPath:                       {query: "isDeleted", status: http.StatusOK, answer: []storageapi.Configuration{}},
		"POST " + configsPath:                      {body: "name! configurationId description configuration state isDisabled changeDescription *", status: http.StatusCreated, answer: storageapi.Configuration{}},
		"GET " + configPath:                        {status: http.StatusOK, answer: storageapi.Configuration{}},
		"PUT " + configPath:                        {body: rowBody + " rowsSortOrder", status: http.StatusOK, answer: storageapi.Configuration{}},
		"PUT " + configPath + "/state":             {body: "state!", status: http.StatusOK, answer: storageapi.Configuration{}},
		"DELETE " + configPath:                     {body: "changeDescription", status: http.StatusNoContent},
		"POST " + configPath + "/restore":          {body: "changeDescription", status: http.StatusOK, answer: storageapi.Configuration{}},
		"POST " + configPath + "/reset-to-default": {status: http.StatusNoContent},
		"GET " + metadataPath:                      {status: http.StatusOK, answer: []storageapi.Metadata{}},
		"POST " + metadataPath:                     {body: "provider metadata", status: http.StatusCreated, answer: []storageapi.Metadata{}},
		"DELETE " + metadataPath + "/{metadata}":   {status: http.StatusNoContent},
		"GET /search/component-configurations":     {query: "componentId configurationId metadataKeys include", status: http.StatusOK, answer: []storageapi.ConfigurationMatch{}},

		"GET " + configPath + "/versions":                     {query: versionsQuery, status: http.StatusOK, answer: []storageapi.ConfigurationVersion{}},
		"GET " + configPath + "/versions/{version}":           {status: http.StatusOK, answer: storageapi.ConfigurationVersion{}},
		"POST " + configPath + "/versions/{version}/rollback": {body: "changeDescription", status: http.StatusCreated, answer: versionShape{}},
		"POST " + configPath + "/versions/{version}/create":   {body: "name! description changeDescription", status: http.StatusCreated, answer: idShape{}},
		"GET " + rowsPath:                                  {status: http.StatusOK, answer: []storageapi.ConfigurationRow{}},
		"POST " + rowsPath:                                 {body: "rowId " + rowBody, status: http.StatusCreated, answer: storageapi.ConfigurationRow{}},
		"GET " + rowPath:                                   {status: http.StatusOK, answer: storageapi.ConfigurationRow{}},
		"PUT " + rowPath:                                   {body: rowBody, status: http.StatusOK, answer: storageapi.ConfigurationRow{}},
		"PUT " + rowPath + "/state":                        {body: "state!", status: http.StatusOK, answer: storageapi.ConfigurationRow{}},
		"DELETE " + rowPath:                                {body: "changeDescription", status: http.StatusNoContent},
		"GET " + rowPath + "/versions":                     {query: versionsQuery, status: http.StatusOK, answer: []storageapi.RowVersion{}},
		"GET " + rowPath + "/versions/{version}":           {status: http.StatusOK, answer: storageapi.RowVersion{}},
		"POST " + rowPath + "/versions/{version}/rollback": {body: "changeDescription", status: http.StatusCreated, answer: storageapi.ConfigurationRow{}},
		"POST " + rowPath + "/versions/{version}/create":   {body: "targetConfigId changeDescription", status: http.StatusCreated, answer: storageapi.ConfigurationRow{}},

		"GET /tokens/verify":        {status: http.StatusOK, answer: storageapi.Token{}},
		"GET /tokens":               {status: http.StatusOK, answer: []storageapi.Token{}},
		"POST /tokens":              {body: tokenBody, status: http.StatusCreated, answer: storageapi.Token{}},
		"GET /tokens/{id}":          {status: http.StatusOK, answer: storageapi.Token{}},
		"PUT /tokens/{id}":          {body: tokenBody, status: http.StatusOK, answer: storageapi.Token{}},
		"DELETE /tokens/{id}":       {status: http.StatusNoContent},
		"POST /tokens/{id}/refresh": {status: http.StatusOK, answer: storageapi.Token{}},
		"POST /tokens/{id}/share":   {body: "recipientEmail! message", status: http.StatusNotImplemented},

		"GET /buckets":                                 {query: "include", status: http.StatusOK, answer: []listedBucketShape{}},
		"POST /buckets":                                {body: "name! stage description displayName backend color *", status: http.StatusCreated, answer: listedBucketShape{}},
		"GET /buckets/{bucket}":                        {query: "include", status: http.StatusOK, answer: bucketShape{}},
		"PUT /buckets/{bucket}":                        {query: "async", body: "displayName color", status: http.StatusOK, answer: listedBucketShape{}, async: true},
		"DELETE /buckets/{bucket}":                     {query: "force async", status: http.StatusNoContent, async: true},
		"GET /buckets/{bucket}/metadata":               {status: http.StatusOK, answer: []storageapi.Metadata{}},
		"POST /buckets/{bucket}/metadata":              {body: "provider! metadata", status: http.StatusCreated, answer: []storageapi.Metadata{}},
		"DELETE /buckets/{bucket}/metadata/{metadata}": {status: http.StatusNoContent},

		"GET /tables":                                {query: "include", status: http.StatusOK, answer: []storageapi.Table{}},
		"GET /buckets/{bucket}/tables":               {query: "include", status: http.StatusOK, answer: []storageapi.Table{}},
		"GET /tables/{table}":                        {status: http.StatusOK, answer: storageapi.Table{}},
		"POST /buckets/{bucket}/tables-definition":   {body: "name! primaryKeysNames columns! timestampType *", status: http.StatusAccepted, answer: storageapi.Job{}},
		"POST /buckets/{bucket}/tables-async":        {body: tableBody + " dataFileId!", status: http.StatusAccepted, answer: storageapi.Job{}},
		"POST /buckets/{bucket}/tables":              {body: tableBody + " data dataString dataFileId", status: http.StatusCreated, answer: storageapi.Table{}},
		"PUT /tables/{table}":                        {query: "async", body: "displayName", status: http.StatusOK, answer: storageapi.Table{}, async: true},
		"DELETE /tables/{table}":                     {query: "force async", status: http.StatusNoContent, async: true},
		"POST /tables/{table}/columns":               {body: "name! basetype definition", status: http.StatusAccepted, answer: storageapi.Job{}},
		"DELETE /tables/{table}/columns/{column}":    {query: "force", status: http.StatusAccepted, answer: storageapi.Job{}},
		"POST /tables/{table}/primary-key":           {body: "columns! skipDuplicatesCheck", status: http.StatusAccepted, answer: storageapi.Job{}},
		"DELETE /tables/{table}/primary-key":         {status: http.StatusAccepted, answer: storageapi.Job{}},
		"POST /tables/{table}/import-async":          {body: "dataFileId! " + importBody, status: http.StatusAccepted, answer: storageapi.Job{}},
		"POST /tables/{table}/import":                {body: "data dataString dataFileId " + importBody, status: http.StatusOK, answer: importShape{}},
		"GET /tables/{table}/data-preview":           {query: selectionQuery + " format", status: http.StatusOK, answer: text("")},
		"POST /tables/{table}/export-async":          {body: selectionQuery + " format gzip fileType", status: http.StatusAccepted, answer: storageapi.Job{}},
		"DELETE /tables/{table}/rows":                {query: selectionQuery + " allowTruncate", status: http.StatusAccepted, answer: storageapi.Job{}},
		"GET /tables/{table}/metadata":               {status: http.StatusOK, answer: []storageapi.Metadata{}},
		"POST /tables/{table}/metadata":              {body: "provider! metadata columnsMetadata", status: http.StatusCreated, answer: storageapi.TableMetadata{}},
		"DELETE /tables/{table}/metadata/{metadata}": {status: http.StatusNoContent},
		"GET /tables/{table}/events":                 {query: pageQuery, status: http.StatusOK, answer: []storageapi.Event{}},

		"POST /files/prepare":           {body: "name! sizeBytes contentType isPermanent notify tags isSliced isEncrypted federationToken", status: http.StatusCreated, answer: storageapi.File{}},
		"GET /files":                    {query: pageQuery + " tags q runId sinceId maxId showExpired", status: http.StatusOK, answer: []storageapi.File{}},
		"GET /files/{id}":               {query: "federationToken", status: http.StatusOK, answer: storageapi.File{}},
		"DELETE /files/{id}":            {query: "async", status: http.StatusNoContent, async: true},
		"POST /files/{id}/tags":         {body: "tag!", status: http.StatusNoContent},
		"DELETE /files/{id}/tags/{tag}": {status: http.StatusNoContent},
		"PUT /files/{id}/refresh":       {status: http.StatusOK, answer: storageapi.File{}},
		"GET /files/{id}/content":       {status: http.StatusOK, answer: text("")},

		"GET /jobs": {
			query:  pageQuery + " storage_job_status excluded_storage_job_status created_time created_time_from created_time_to start_time start_time_from start_time_to end_time end_time_from end_time_to",
			status: http.StatusOK, answer: []storageapi.Job{},
		},
		"GET /jobs/{id}":   {status: http.StatusOK, answer: storageapi.Job{}},
		"POST /events":     {body: "component! message! type configurationId runId params results duration *", status: http.StatusCreated, answer: eventIDShape{}},
		"GET /events":      {query: pageQuery + " runId component", status: http.StatusOK, answer: []storageapi.Event{}},
		"GET /events/{id}": {status: http.StatusOK, answer: storageapi.Event{}},
		"POST /tickets":    {status: http.StatusCreated, answer: idShape{}},
	},
	queueAPI: {
		"POST /jobs": {
			body:   "component! mode config configRowIds configData tag branchId variableValuesId variableValuesData backend parallelism delay delayedStartTime *",
			status: http.StatusCreated, answer: queueJob{},
		},
		"GET /jobs":            {query: queueQuery, status: http.StatusOK, answer: []queueJob{}},
		"GET /search/jobs":     {query: queueQuery, status: http.StatusOK, answer: []queueJob{}},
		"GET /jobs/{id}":       {status: http.StatusOK, answer: queueJob{}},
		"POST /jobs/{id}/kill": {status: http.StatusAccepted, answer: queueJob{}},
	},
	encryptionAPI: {
		"POST /encrypt": {query: "componentId projectId configId branchType", body: "*", status: http.StatusOK, answer: text("")},
	},
}

const queueQuery = pageQuery + " component config status id runId branchId sortBy sortOrder"
