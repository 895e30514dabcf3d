package main

import (
	"encoding/json"
	"os"

	coreconfig "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/encoder"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// wish says how one worker's config shall differ from the plainest.
type wish struct {
	Name       string            `json:"name"`
	Talos      string            `json:"talos"`      // v1.10: for nodes of that release
	Kubernetes string            `json:"kubernetes"` // 1.33.0
	Disk       string            `json:"disk"`
	Installer  string            `json:"installer"`
	KernelArgs []string          `json:"kernelArgs"`
	Mirrors    map[string]string `json:"mirrors"`
	Sysctls    map[string]string `json:"sysctls"`
	DNSDomain  string            `json:"dnsDomain"`
	Discovery  *bool             `json:"discovery"`
	KubeSpan   bool              `json:"kubespan"`
	SANs       []string          `json:"sans"`
	Debug      bool              `json:"debug"`
}

// makeWorkers answers each wish on the input with the config that `talosctl gen config` would write for a worker.
func makeWorkers() error {
	wishes := json.NewDecoder(os.Stdin)
	out := json.NewEncoder(os.Stdout)

	var bundle *secrets.Bundle // making one takes seconds; which one is all the same here

	for wishes.More() {
		var wanted wish

		if err := wishes.Decode(&wanted); err != nil {
			return err
		}

		contract, err := coreconfig.ParseContractFromVersion(wanted.Talos)
		if err != nil {
			return err
		}

		if bundle == nil {
			if bundle, err = secrets.NewBundle(secrets.NewClock(), contract); err != nil {
				return err
			}
		}

		options := []generate.Option{
			generate.WithVersionContract(contract),
			generate.WithSecretsBundle(bundle),
			generate.WithDebug(wanted.Debug),
			generate.WithAdditionalSubjectAltNames(wanted.SANs),
			generate.WithInstallExtraKernelArgs(wanted.KernelArgs),
			generate.WithSysctls(wanted.Sysctls),
		}

		if wanted.Disk != "" {
			options = append(options, generate.WithInstallDisk(wanted.Disk))
		}

		if wanted.Installer != "" {
			options = append(options, generate.WithInstallImage(wanted.Installer))
		}

		if wanted.DNSDomain != "" {
			options = append(options, generate.WithDNSDomain(wanted.DNSDomain))
		}

		if wanted.Discovery != nil {
			options = append(options, generate.WithClusterDiscovery(*wanted.Discovery))
		}

		for host, endpoint := range wanted.Mirrors {
			options = append(options, generate.WithRegistryMirror(host, endpoint))
		}

		if wanted.KubeSpan {
			options = append(options, generate.WithNetworkOptions(v1alpha1.WithKubeSpan()))
		}

		input, err := generate.NewInput("home", "https://10.0.0.1:6443", wanted.Kubernetes, options...)
		if err != nil {
			return err
		}

		config, err := input.Config(machine.TypeWorker)
		if err != nil {
			return err
		}

		text, err := config.EncodeString(encoder.WithComments(encoder.CommentsAll))
		if err != nil {
			return err
		}

		if err := out.Encode(map[string]string{"name": wanted.Name, "text": text}); err != nil {
			return err
		}
	}

	return nil
}
