"""Kinds of our own: definitions, columns of every type, defaults, validation, status, explain."""

from tests.contracts.kubectl.script import Script, run
from tests.contracts.kubectl.scripts.applying import GO_PRINTS
from tests.contracts.kubectl.scripts.explaining import OUR_WORDS

WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.kubectl.tgp.io}
spec:
  group: kubectl.tgp.io
  scope: Namespaced
  names: {plural: gizmos, singular: gizmo, kind: Gizmo, listKind: GizmoList, shortNames: [giz], categories: [toys]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Price, type: number, jsonPath: .spec.price, priority: 1}
    - {name: Paused, type: boolean, jsonPath: .spec.paused}
    - {name: First, type: string, jsonPath: '.spec.names[0]'}
    - {name: Team, type: string, jsonPath: '.metadata.labels.example\\.org/team'}
    - {name: Names, type: string, jsonPath: .spec.names}
    - {name: Since, type: date, jsonPath: .status.since}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: Something small that turns.
        required: [spec]
        properties:
          spec:
            type: object
            description: How it should turn.
            required: [colour]
            properties:
              colour: {type: string, enum: [red, blue], description: What it is painted in.}
              replicas: {type: integer, minimum: 0, maximum: 9, default: 1}
              price: {type: number}
              paused: {type: boolean, default: false}
              names: {type: array, maxItems: 3, items: {type: string, maxLength: 9}}
              parts:
                type: array
                maxItems: 5
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, maxLength: 9}
                    size: {x-kubernetes-int-or-string: true, description: A number or a percentage.}
          status:
            type: object
            properties:
              since: {type: string, format: date-time}
              replicas: {type: integer}
              conditions:
                type: array
                items:
                  type: object
                  required: [type, status]
                  properties: {type: {type: string}, status: {type: string}, reason: {type: string}}
"""
GIZMO = """
apiVersion: kubectl.tgp.io/v1
kind: Gizmo
metadata: {name: top, labels: {example.org/team: a}}
spec:
  colour: red
  price: 1.5
  replicas: 2
  names: [ann, bob]
  parts: [{name: axle, size: 5}, {name: hat, size: 10%}]
"""
READY = """{"status": {"replicas": 2, "since": "2020-01-01T00:00:00Z", "conditions": [
 {"type": "Old", "status": "False"}, {"type": "Ready", "status": "True", "reason": "Turning"}]}}"""
SHAPES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shapes.kubectl.tgp.io}
spec:
  group: kubectl.tgp.io
  scope: Cluster
  names: {plural: shapes, singular: shape, kind: Shape, listKind: ShapeList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

CUSTOM = (
    Script(
        "custom kinds",
        (
            run(
                "apply -f -",
                WIDGETS,
                says="customresourcedefinition.apiextensions.k8s.io/gizmos.kubectl.tgp.io created",
            ),
            run("wait crd/gizmos.kubectl.tgp.io --for=condition=Established --timeout=20s", says="condition met"),
            run("get crd gizmos.kubectl.tgp.io", says="CREATED AT"),
            run("api-resources --api-group=kubectl.tgp.io -o wide", says=("giz", "toys")),
            run("get giz", says="No resources found"),
            run("apply -f -", GIZMO, says="gizmo.kubectl.tgp.io/top created"),
            run("apply -f -", GIZMO, says="unchanged"),
            run("get gizmos", says=("top", "READY", "ann", '["ann","bob"]')),
            run(f"patch gizmo top --subresource=status --type=merge -p '{READY}'"),
            run("get gizmos -o wide", says=("True", "1.5")),
            run("get toys", says="top"),
            run("get gizmo.v1.kubectl.tgp.io/top -o yaml", says="paused: false"),
            run("describe gizmo top", says=("Reason:", "Turning", "Colour:")),
            run("apply -f -", GIZMO.replace("red", "green"), fails=True, says='Unsupported value: "green"'),
            run(
                "apply -f -",
                GIZMO.replace("replicas: 2", "replicas: 10"),
                fails=True,
                says="should be less than or equal to 9",
            ),
            run("apply -f -", GIZMO.replace("  colour: red\n", ""), fails=True, says="spec.colour: Required value"),
            run(
                "apply -f -",
                GIZMO.replace("colour: red", "colour: red\n  colr: blue"),
                fails=True,
                says='unknown field "spec.colr"',
                unlike=GO_PRINTS,
            ),
            run(
                "apply -f -",
                GIZMO.replace("  price: 1.5\n", "").replace("axle, size: 5", "axle, size: 6"),
                says="configured",
            ),
            run("get gizmo top -o jsonpath='{.spec}'", never_says="price"),
            run("apply --server-side --force-conflicts -f -", GIZMO, says="serverside-applied"),
            run("apply --server-side -f -", GIZMO.replace("{name: axle, size: 5}, ", ""), says="serverside-applied"),
            run("get gizmo top -o yaml --show-managed-fields"),
            run("""patch gizmo top --type=merge -p '{"spec":{"replicas":4}}'""", says="patched"),
            run("""patch gizmo top -p '{"spec":{"replicas":4}}'""", fails=True, says="not supported"),
            run("scale gizmo top --replicas=5", says="scaled"),
            run("get gizmo top -o jsonpath='{.metadata.generation}'"),
            run("wait gizmo/top --for=condition=Ready --timeout=5s", says="condition met"),
            run("wait gizmo/top --for=jsonpath='{.spec.replicas}'=5 --timeout=5s", says="condition met"),
            run("explain gizmo", says="Something small that turns.", unlike=OUR_WORDS),
            run("explain gizmo.spec", says=("What it is painted in.", "-required-", "<[]Object>")),
            run("explain gizmo.spec.parts.size", says="A number or a percentage."),
            run("explain gizmo --recursive", says="colour"),
            run("explain gizmo.spec --output=plaintext-openapiv2", says="What it is painted in."),
            run("label gizmo top kind=spinning"),
            run("annotate gizmos --all note=x", says="annotated"),
            run("get gizmos -l kind=spinning -o name", says="gizmo.kubectl.tgp.io/top"),
            run("delete gizmo top", says='gizmo.kubectl.tgp.io "top" deleted'),
            run("create -f -", SHAPES),
            run("wait crd/shapes.kubectl.tgp.io --for=condition=Established --timeout=20s"),
            run("create -f -", "{apiVersion: kubectl.tgp.io/v1, kind: Shape, metadata: {name: box}, anything: [goes]}"),
            run("get shapes", says="AGE"),
            run("get shape box -o yaml", says="- goes"),
            run("delete crd shapes.kubectl.tgp.io gizmos.kubectl.tgp.io", says="deleted"),
            run("get gizmos", fails=True),
        ),
    ),
)
