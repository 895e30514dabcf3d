// Karpenter's own solver behind standard input and output: a market and pods in, the machines it would launch out.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test"
)

const concurrent = 5 // as its own benchmark has it

type question struct {
	Types []machineType  `json:"types"`
	Pods  []*corev1.Pod  `json:"pods"`
	Taint []corev1.Taint `json:"taints"` // of every machine
}

type machineType struct {
	Name      string              `json:"name"`
	Capacity  corev1.ResourceList `json:"capacity"`
	Reserved  corev1.ResourceList `json:"reserved"` // what pods cannot have
	Labels    map[string]string   `json:"labels"`
	Offerings []offering          `json:"offerings"`
}

type offering struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
}

type answer struct {
	Claims     []claim           `json:"claims"`
	Errors     map[string]string `json:"errors"`     // by pod: why it has no machine
	Seconds    float64           `json:"seconds"`    // of Solve, by the clock
	CPUSeconds float64           `json:"cpuSeconds"` // of Solve, on all processors
}

type claim struct {
	Type  string   `json:"type"`
	Zone  string   `json:"zone"`
	Price float64  `json:"price"`
	Pods  []string `json:"pods"` // by uid
}

func main() {
	log.SetLogger(logging.NopLogger)
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fail(err)
	}
	found, err := solve(asked)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func solve(asked question) (*answer, error) {
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), test.Options())
	types := instanceTypes(asked.Types)
	pool := test.NodePool(v1.NodePool{Spec: v1.NodePoolSpec{Limits: v1.Limits{
		corev1.ResourceCPU:    resource.MustParse("10000000"),
		corev1.ResourceMemory: resource.MustParse("10000000Gi"),
	}}})
	pool.Spec.Template.Spec.Taints = asked.Taint
	pools := []*v1.NodePool{pool}
	byPool := map[string][]*cloudprovider.InstanceType{pool.Name: types}
	provider := fake.NewCloudProvider()
	provider.InstanceTypes = types
	client := fakecr.NewFakeClient()
	ticking := &clock.RealClock{}
	cluster := state.NewCluster(ticking, client, provider)
	several := scheduling.NumConcurrentReconciles(concurrent)
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, byPool, asked.Pods, several)
	if err != nil {
		return nil, err
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	solver := scheduling.NewScheduler(
		ctx, client, pools, cluster, nil, topology, byPool, nil, recorder, ticking, nil, nil, several,
	)
	runtime.GC()
	began, spent := time.Now(), processorTime()
	results, err := solver.Solve(ctx, asked.Pods)
	if err != nil {
		return nil, err
	}
	found := &answer{
		Seconds:    time.Since(began).Seconds(),
		CPUSeconds: (processorTime() - spent).Seconds(),
		Errors:     map[string]string{},
	}
	for pod, why := range results.PodErrors {
		found.Errors[string(pod.UID)] = why.Error()
	}
	for _, each := range results.NewNodeClaims {
		found.Claims = append(found.Claims, cheapest(each))
	}
	return found, nil
}

// cheapest is what the claim costs at the provider: the cheapest offering of its cheapest type.
func cheapest(found *scheduling.NodeClaim) claim {
	first := found.InstanceTypeOptions.OrderByPrice(found.Requirements)[0]
	bought := first.Offerings.Available().Compatible(found.Requirements).Cheapest()
	answer := claim{Type: first.Name, Zone: bought.Zone(), Price: bought.Price}
	for _, pod := range found.Pods {
		answer.Pods = append(answer.Pods, string(pod.UID))
	}
	return answer
}

func instanceTypes(asked []machineType) []*cloudprovider.InstanceType {
	for _, each := range asked {
		for key := range each.Labels {
			v1.WellKnownLabels.Insert(key)
		}
	}
	var types []*cloudprovider.InstanceType
	for _, each := range asked {
		var offerings []cloudprovider.Offering
		for _, one := range each.Offerings {
			offerings = append(offerings, cloudprovider.Offering{
				Available: true,
				Price:     one.Price,
				Requirements: requirements.NewLabelRequirements(map[string]string{
					v1.CapacityTypeLabelKey:  one.CapacityType,
					corev1.LabelTopologyZone: one.Zone,
				}),
			})
		}
		made := fake.NewInstanceType(each.Name, fake.WithResources(each.Capacity), fake.WithOfferings(offerings...))
		made.Overhead = &cloudprovider.InstanceTypeOverhead{KubeReserved: each.Reserved}
		for key, value := range each.Labels {
			made.Requirements.Add(requirements.NewRequirement(key, corev1.NodeSelectorOpIn, value))
		}
		types = append(types, made)
	}
	return types
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fail(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
