package drivers

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/storageapi"
)

var tableID = regexp.MustCompile(`^(in|out)\.([A-Za-z0-9_-]{1,96})\.([A-Za-z0-9_-]{1,96})$`)

func splitTable(id string) (stage, bucket, table string, err error) {
	m := tableID.FindStringSubmatch(id)
	if m == nil {
		return "", "", "", driver.Permanent(fmt.Errorf(`table id %.120q: want "in" or "out", a bucket and a table, joined by dots`, id))
	}
	return m[1], m[2], m[3], nil
}

// Limits implements [driver.Limiter]. The platform stores no text that is not UTF-8.
func (t *Target) Limits() datatype.Limits { return datatype.Limits{UTF8: true} }

// Ensure implements [driver.Target]. It makes the bucket and the table, of text columns without a key, if they are
// absent.
func (t *Target) Ensure(ctx context.Context, table driver.Table) error {
	if err := t.ensure(ctx, t.client, table); err != nil {
		return fmt.Errorf("storage api target: ensure %q: %w", table.ID, classify(err))
	}
	return nil
}

func (t *Target) ensure(ctx context.Context, client *storageapi.Client, table driver.Table) error {
	stage, bucket, name, err := splitTable(table.ID)
	if err != nil {
		return err
	}
	found, err := client.Table(ctx, table.ID)
	if err == nil {
		return compare(table, found.Columns)
	}
	if !storageapi.IsNotFound(err) {
		return err
	}
	if err := t.ensureBucket(ctx, stage, bucket); err != nil {
		return err
	}
	columns := storageapi.TextColumns(table.Names()...)
	if table.Creation != "" {
		client = client.WithRunID(table.Creation) // by which Uncreate finds the job
	}
	_, err = client.CreateTable(ctx, stage+"."+bucket, storageapi.TableCreate{Name: name, Columns: columns})
	if err == nil {
		return nil
	}
	// Another client may have been first.
	if found, ferr := client.Table(ctx, table.ID); ferr == nil {
		return compare(table, found.Columns)
	}
	return err
}

// Uncreate implements [driver.Uncreator]. The mark of a table is the run id of the job that has made it. The bucket stays.
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) error {
	if err := t.uncreate(ctx, tableID, creation); err != nil {
		return fmt.Errorf("storage api target: take back %q: %w", tableID, classify(err))
	}
	return nil
}

func (t *Target) uncreate(ctx context.Context, tableID, creation string) error {
	table, err := t.client.Table(ctx, tableID)
	switch {
	case storageapi.IsNotFound(err):
		return nil
	case err != nil || table.RowsCount > 0 || creation == "":
		return err
	}
	for job, err := range t.client.Jobs(ctx, storageapi.JobQuery{CreatedFrom: table.Created.Add(-clockSkew)}) {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(job.OperationName, "Create") || gjson.GetBytes(job.Results, "id").String() != tableID {
			continue
		}
		if job.RunID == nil || *job.RunID != creation {
			return nil // another client's job made the newest table of the name
		}
		return ignoreNotFound(t.client.DeleteTable(ctx, tableID, false))
	}
	return nil
}

// ensureBucket makes a bucket with the client's own token, if it is absent.
func (t *Target) ensureBucket(ctx context.Context, stage, bucket string) error {
	_, err := t.client.Bucket(ctx, stage+"."+bucket)
	if !storageapi.IsNotFound(err) {
		return err
	}
	// Most stacks put "c-" before the name that they are given.
	index, err := t.client.Services(ctx)
	if err != nil {
		return err
	}
	name := bucket
	if !slices.Contains(index.Features, storageapi.FeatureNoBucketPrefix) {
		var prefixed bool
		if name, prefixed = strings.CutPrefix(bucket, "c-"); !prefixed {
			return driver.Permanent(fmt.Errorf("the bucket %q is absent and cannot be made: names of new buckets begin with \"c-\" on this stack", stage+"."+bucket))
		}
	}
	_, err = t.client.CreateBucket(ctx, storageapi.BucketCreate{Stage: stage, Name: name})
	if storageapi.IsAlreadyExists(err) {
		_, err = t.client.Bucket(ctx, stage+"."+bucket)
	}
	return err
}

func compare(table driver.Table, got []string) error {
	if slices.Equal(table.Names(), got) {
		return nil
	}
	return &driver.SchemaError{Table: table.ID, Want: slices.Clone(table.Columns), Got: datatype.UntypedColumns(got...)}
}
