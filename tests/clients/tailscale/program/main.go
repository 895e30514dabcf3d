// Walks through keys and devices of a tailnet with Tailscale's own client, and prints what it understood as JSON.
// Arguments: the server's URL, the id of an OAuth client and its secret.
package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"time"

	tailscale "tailscale.com/client/tailscale/v2"
)

type seen struct {
	ID, Hostname, Name  string
	Addresses, Tags     []string
	Created             time.Time
	Ephemeral, External bool
	Deleted, Again      string
	GoneIsNotFound      bool
}

type walk struct {
	KeyID, Key, Description string
	Tags                    []string
	Expires                 time.Time
	Listed                  int
	Devices                 []seen
	Revoked                 string
	OtherTag, NoTag         string
}

func told(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func must(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func main() {
	base, err := url.Parse(os.Args[1])
	must(err)
	auth := &tailscale.OAuth{ClientID: os.Args[2], ClientSecret: os.Args[3]}
	client := &tailscale.Client{BaseURL: base, Auth: auth}
	ctx := context.Background()

	var order tailscale.CreateKeyRequest
	order.ExpirySeconds = 600
	order.Description = "a walk"
	create := &order.Capabilities.Devices.Create
	create.Ephemeral, create.Preauthorized, create.Tags = true, true, []string{"tag:tgp-gpu"}
	key, err := client.Keys().CreateAuthKey(ctx, order)
	must(err)
	done := walk{
		KeyID: key.ID, Key: key.Key, Description: key.Description, Expires: key.Expires,
		Tags: key.Capabilities.Devices.Create.Tags,
	}
	keys, err := client.Keys().List(ctx, true)
	must(err)
	done.Listed = len(keys)
	devices, err := client.Devices().List(ctx)
	must(err)
	for _, device := range devices {
		one := seen{
			ID: device.NodeID, Hostname: device.Hostname, Name: device.Name, Addresses: device.Addresses,
			Tags: device.Tags, Created: device.Created.Time, Ephemeral: device.IsEphemeral, External: device.IsExternal,
		}
		one.Deleted = told(client.Devices().Delete(ctx, device.NodeID))
		again := client.Devices().Delete(ctx, device.NodeID)
		one.Again, one.GoneIsNotFound = told(again), tailscale.IsNotFound(again)
		done.Devices = append(done.Devices, one)
	}
	done.Revoked = told(client.Keys().Delete(ctx, key.ID))
	create.Tags = []string{"tag:somebodys"}
	_, err = client.Keys().CreateAuthKey(ctx, order)
	done.OtherTag = told(err)
	create.Tags = nil
	_, err = client.Keys().CreateAuthKey(ctx, order)
	done.NoTag = told(err)
	must(json.NewEncoder(os.Stdout).Encode(done))
}
