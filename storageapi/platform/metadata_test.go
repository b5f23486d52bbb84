package platform_test

import (
	"testing"

	"github.com/forebay/forebay/storageapi"
)

func TestConfigurationMetadataAndSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	for _, id := range []string{"1", "2"} {
		must(w.CreateConfiguration(ctx, component, storageapi.ConfigurationCreate{ConfigurationID: id, Name: id}))(t)
	}
	list := must(w.SetConfigurationMetadata(ctx, component, "1", storageapi.KeyValue{Key: "k", Value: "v"}, storageapi.KeyValue{Key: "l", Value: "w"}))(t)
	if len(list) != 2 || list[0].Value != "v" {
		t.Fatalf("metadata %+v", list)
	}
	again := must(w.SetConfigurationMetadata(ctx, component, "1", storageapi.KeyValue{Key: "k", Value: "v2"}))(t)
	if len(again) != 2 || again[0].Value != "v2" || again[0].ID != list[0].ID {
		t.Errorf("metadata %+v", again)
	}
	found := must(storageapi.Collect(w.SearchConfigurations(ctx, storageapi.ConfigurationSearch{MetadataKeys: []string{"k"}, IncludeMetadata: true})))(t)
	if len(found) != 1 || found[0].ConfigurationID != "1" || len(found[0].Metadata) != 1 {
		t.Errorf("found %+v", found)
	}
	check(t, w.DeleteConfigurationMetadata(ctx, component, "1", string(list[0].ID)))
	if left := must(storageapi.Collect(w.ConfigurationMetadata(ctx, component, "1")))(t); len(left) != 1 {
		t.Errorf("left %+v", left)
	}
}
