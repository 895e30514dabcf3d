// Podwatcher is the peer: client-go's shared informer with four indexes and a workqueue, over protobuf.
//
// It prints one JSON line when the list is in and every key had its turn, then waits for a line on its standard input,
// and prints another when the changes it was told of had theirs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const label = "app.kubernetes.io/name"

type counters struct {
	updates, turns, found atomic.Int64
}

func main() {
	url := flag.String("url", "", "where the pods are")
	slim := flag.Bool("slim", false, "strip pods to the fields the other side keeps")
	accept := flag.String("accept", "protobuf", "protobuf or json")
	flag.Parse()

	config := &rest.Config{Host: *url, QPS: -1}
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	if *accept == "protobuf" {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	client := must(kubernetes.NewForConfig(config))
	var options []informers.SharedInformerOption
	if *slim {
		options = append(options, informers.WithTransform(strip))
	}
	informer := informers.NewSharedInformerFactoryWithOptions(client, 0, options...).Core().V1().Pods().Informer()
	check(informer.AddIndexers(cache.Indexers{
		"node":  func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil },
		"phase": func(o any) ([]string, error) { return []string{string(o.(*corev1.Pod).Status.Phase)}, nil },
		"label": func(o any) ([]string, error) {
			value, has := o.(*corev1.Pod).Labels[label]
			if !has {
				return nil, nil
			}
			return []string{label + "=" + value}, nil
		},
	}))

	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	var count counters
	add := func(o any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}
	handler := must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, o any) { add(o); count.updates.Add(1) },
		DeleteFunc: add,
	}))
	go work(queue, informer.GetIndexer(), &count)

	began, spent := time.Now(), cpu()
	go informer.Run(context.Background().Done())
	for !handler.HasSynced() || queue.Len() > 0 || count.turns.Load() < int64(len(informer.GetIndexer().ListKeys())) {
		time.Sleep(5 * time.Millisecond)
	}
	report(map[string]any{
		"list_seconds": time.Since(began).Seconds(), "list_cpu_seconds": cpu() - spent,
		"pods": len(informer.GetIndexer().ListKeys()),
	})

	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		events, err := strconv.ParseInt(strings.TrimSpace(input.Text()), 10, 64)
		check(err)
		updates := count.updates.Load()
		began, spent := time.Now(), cpu()
		for count.updates.Load() < updates+events || queue.Len() > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		report(map[string]any{"event_seconds": time.Since(began).Seconds(), "event_cpu_seconds": cpu() - spent})
	}
}

func work(queue workqueue.TypedRateLimitingInterface[string], indexer cache.Indexer, count *counters) {
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		if _, exists, _ := indexer.GetByKey(key); exists {
			count.found.Add(1)
		}
		queue.Forget(key)
		queue.Done(key)
		count.turns.Add(1)
	}
}

// strip keeps what the other side keeps.
func strip(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, Labels: pod.Labels,
			OwnerReferences: pod.OwnerReferences, Finalizers: pod.Finalizers,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity,
			Tolerations: pod.Spec.Tolerations, Priority: pod.Spec.Priority, SchedulerName: pod.Spec.SchedulerName,
			SchedulingGates:               pod.Spec.SchedulingGates,
			TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime},
	}
	for _, each := range pod.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: each.Name, Resources: each.Resources})
	}
	for _, each := range pod.Status.Conditions {
		if each.Type == corev1.PodScheduled {
			kept.Status.Conditions = append(kept.Status.Conditions, each)
		}
	}
	for _, each := range pod.Status.ContainerStatuses {
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{State: each.State})
	}
	return kept, nil
}

// report prints a phase with the memory after it: as it is, and after a full collection with everything given back.
func report(phase map[string]any) {
	time.Sleep(time.Second)
	phase["natural_mib"] = memory("VmRSS:")
	runtime.GC()
	debug.FreeOSMemory()
	phase["settled_mib"], phase["peak_mib"] = memory("VmRSS:"), memory("VmHWM:")
	fmt.Println(string(must(json.Marshal(phase))))
}

func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func memory(name string) float64 {
	for _, line := range strings.Split(string(must(os.ReadFile("/proc/self/status"))), "\n") {
		if rest, found := strings.CutPrefix(line, name); found {
			return must(strconv.ParseFloat(strings.Fields(rest)[0], 64)) / 1024
		}
	}
	return 0
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
