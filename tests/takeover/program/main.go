// Reads a disk with the library by which Talos finds its volumes, and tells what it sees as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/siderolabs/go-blockdevice/v2/blkid"
)

func main() {
	info, err := blkid.ProbePath(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(info)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
