package s3gateway_test

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/forebay/forebay/storageapi"
	"github.com/forebay/forebay/storageapi/platform"
)

// The other form of credentials is used by the SDK of its inventors. This test stands here because the SDK is there.
func TestBlobSDK(t *testing.T) {
	ctx := t.Context()
	server, err := platform.Open(t.TempDir(), platform.Options{Token: token})
	check(t, err)
	front := httptest.NewServer(server)
	t.Cleanup(func() {
		front.Close()
		check(t, server.Close())
	})
	own, err := storageapi.New(storageapi.Options{URL: front.URL, Token: token, HTTP: front.Client()})
	check(t, err)
	f, err := own.PrepareFile(ctx, storageapi.FilePrepare{Name: "f"})
	check(t, err)
	client, err := container.NewClientFromConnectionString(string(f.AzureUpload.Credentials.SASConnectionString), f.AzureUpload.Container, nil)
	check(t, err)
	data := bytes.Repeat([]byte("0123456789"), 1<<20)
	upload := client.NewBlockBlobClient(f.AzureUpload.BlobName)
	_, err = upload.UploadBuffer(ctx, data, &blockblob.UploadBufferOptions{
		BlockSize: 4 << 20, HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/csv")}, Metadata: map[string]*string{"my": to.Ptr("own")},
	})
	check(t, err)
	_, err = upload.GetProperties(ctx, nil)
	check(t, err)

	r, err := own.FileWithCredentials(ctx, f.ID)
	check(t, err)
	reading, err := container.NewClientFromConnectionString(string(r.AzureCredentials.SASConnectionString), r.AzurePath.Container, nil)
	check(t, err)
	properties, err := reading.NewBlobClient(r.AzurePath.Name).GetProperties(ctx, nil)
	check(t, err)
	if properties.CreationTime == nil || *properties.ContentType != "text/csv" || *properties.ContentLength != int64(len(data)) || *properties.Metadata["My"] != "own" {
		t.Errorf("properties %+v", properties)
	}
	out, err := reading.NewBlobClient(r.AzurePath.Name).DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 5, Count: 10}})
	check(t, err)
	got, err := io.ReadAll(out.Body)
	check(t, err)
	if string(got) != "5678901234" {
		t.Errorf("a range of the blob is %q", got)
	}
	if _, err := reading.NewBlobClient(r.AzurePath.Name).Delete(ctx, nil); err == nil {
		t.Error("a blob was deleted with credentials for reading")
	}
}
