package platform

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Old clients send the CSV in the body of the call, as the file "data" of a multipart form, as the field "data" or
// "dataString" of any form, or as the id of an existing file. The bytes become a file of the project. An ordinary job imports
// it, and then it is deleted.

// bodyFileDays is when the file expires if a crash prevents its deletion.
const bodyFileDays = 1

// maxFormFields bounds the memory of the fields other than the file.
const maxFormFields = 4 << 20

func (c *request) importBody() (any, error) {
	t, err := c.writableTable()
	if err != nil {
		return nil, err
	}
	return c.ofBody(func(in *input, file func(*input) (int64, error)) (jobSpec, error) { return c.importSpec(in, t, file) })
}

func (c *request) createTableOfBody() (any, error) {
	// Before the bytes are taken.
	if err := c.view(func(tx *txn) error { return c.findWritable(tx, c.r.PathValue("bucket")) }); err != nil {
		return nil, err
	}
	return c.ofBody(c.createSpec)
}

// ofBody stores the bytes of the body as a file, runs the job that spec makes of it, and returns the job's results.
func (c *request) ofBody(spec func(in *input, file func(*input) (int64, error)) (jobSpec, error)) (any, error) {
	in, name, id, err := c.readBodyFile()
	if id != 0 {
		defer c.s.dropBodyFile(id)
	}
	if err != nil {
		return nil, err
	}
	job, err := spec(in, func(in *input) (int64, error) {
		if id == 0 {
			return c.dataFile(in)
		}
		f := storedFile{ID: id, Branch: c.branch, Name: name, Created: now(), RunID: c.runID(), Creator: c.creator()}
		f.keepFor(bodyFileDays)
		return id, c.s.store.update(fileLock(id), func(tx *txn) error { putFile(tx, f); return nil })
	})
	if err != nil {
		return nil, err
	}
	record, err := c.newJob(job)
	if err == nil {
		record, err = c.s.jobs.wait(c.r.Context(), record.ID)
	}
	if err != nil {
		return nil, err
	}
	if e := record.Failure; e != nil {
		return nil, &apiError{status: http.StatusBadRequest, code: e.Code, message: e.Message}
	}
	return record.Results, nil
}

// dropBodyFile deletes the file unless its job still runs, because the caller has gone. Then the file expires later.
func (s *Server) dropBodyFile(id int64) {
	open, err := viewed(s.store, openJobs)
	if err != nil || slices.ContainsFunc(open, func(r jobRecord) bool { return gjson.GetBytes(r.Params, "source.fileId").Int() == id }) {
		return
	}
	err = s.store.update(fileLock(id), func(tx *txn) error { dropFileOf(tx, id); return nil })
	if err != nil {
		s.log.Warn("platform: the file of an import could not be deleted, it expires by itself", "file", id, "error", err)
		return
	}
	s.removeBlobs(id)
}

// readBodyFile reads the fields of the body and stores its CSV. id is 0 if there is none.
func (c *request) readBodyFile() (in *input, name string, id int64, err error) {
	kind, params, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		return c.readFormFile(params["boundary"])
	}
	in = c.input(tableCode)
	if err := c.fault(); err != nil {
		return nil, "", 0, err
	}
	for _, field := range []string{"data", "dataString"} {
		if text := in.text(field); text != nil {
			id, err = c.storeBody(strings.NewReader(*text))
			return in, "data.csv", id, err
		}
	}
	return in, "", 0, nil
}

// readFormFile reads a multipart form. The file is not kept in memory.
func (c *request) readFormFile(boundary string) (in *input, name string, id int64, err error) {
	in, err = readParts(&contextReader{c.r.Context(), c.r.Body}, boundary, maxFormFields, func(p *multipart.Part) (taken bool, err error) {
		field := p.FormName()
		if field != "data" && field != "dataString" {
			return false, nil
		}
		if id != 0 {
			return true, refuse(http.StatusBadRequest, "validation.body", "The form has the field %s twice", field)
		}
		name = cmp.Or(p.FileName(), "data.csv")
		if id, err = c.storeBody(p); errors.Is(err, io.ErrUnexpectedEOF) {
			err = errForm
		}
		return true, err
	})
	return c.reading(in, tableCode, err), name, id, err
}

// storeBody stores bytes for a file whose record follows. After a crash in between, the next opening removes them.
func (c *request) storeBody(src io.Reader) (int64, error) {
	id, err := c.s.store.ids.take()
	if err == nil {
		_, err = c.s.blobs.put(id, "", src)
	}
	return id, err
}
