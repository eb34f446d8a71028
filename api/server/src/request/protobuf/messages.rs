//! Field numbers of the messages that `kubectl create`, `kubectl auth` and typed deletes send.
//!
//! Source: `generated.proto` of `k8s.io/api` and `k8s.io/apimachinery`.

use std::{collections::HashMap, sync::LazyLock};

/// How a field is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Int,
    Bool,
    Time,
    IntOrString,
    TextMap,
    BytesMap,
    /// JSON in bytes, in a message of its own.
    Json,
    QuantityMap,
    Message(&'static str),
    /// Bytes, which JSON has in base64.
    Bytes,
    /// Lists of text by name.
    ListMap,
}

/// A field of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether its zero value is kept: it is a pointer in Go.
    pub(super) pointer: bool,
    pub(super) repeated: bool,
}

/// The fields of a message; `None` if it is not in the table.
pub(super) fn message(name: &str) -> Option<&'static [Field]> {
    MESSAGES.get(name).map(Vec::as_slice)
}

/// One message a line: `Name: number field type, …`. A type is the name of a message or one of those in [`kind`]; `*`
/// before it means a pointer, `[]` a list; a field of the name `.` is a message whose fields JSON has in place of it. Of
/// HorizontalPodAutoscaler the fields are those of `autoscaling/v1`, which `kubectl autoscale` sends.
const TABLE: &str = "
ObjectMeta: 1 name string, 2 generateName string, 3 namespace string, 4 selfLink string, 5 uid string, 6 resourceVersion string, 7 generation int, 8 creationTimestamp time, 9 deletionTimestamp time, 10 deletionGracePeriodSeconds *int, 11 labels strings, 12 annotations strings, 13 ownerReferences []OwnerReference, 14 finalizers []string, 17 managedFields []ManagedFieldsEntry
ManagedFieldsEntry: 1 manager string, 2 operation string, 3 apiVersion string, 4 time time, 6 fieldsType string, 7 fieldsV1 json, 8 subresource string
OwnerReference: 1 kind string, 3 name string, 4 uid string, 5 apiVersion string, 6 controller *bool, 7 blockOwnerDeletion *bool
LabelSelector: 1 matchLabels strings, 2 matchExpressions []LabelSelectorRequirement
LabelSelectorRequirement: 1 key string, 2 operator string, 3 values []string
DeleteOptions: 1 gracePeriodSeconds *int, 2 preconditions *Preconditions, 3 orphanDependents *bool, 4 propagationPolicy *string, 5 dryRun []string
Preconditions: 1 uid *string, 2 resourceVersion *string
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus
NamespaceSpec: 1 finalizers []string
NamespaceStatus: 1 phase string
ConfigMap: 1 metadata ObjectMeta, 2 data strings, 3 binaryData bytes, 4 immutable *bool
Secret: 1 metadata ObjectMeta, 2 data bytes, 3 type string, 4 stringData strings, 5 immutable *bool
ServiceAccount: 1 metadata ObjectMeta, 3 imagePullSecrets []LocalObjectReference, 4 automountServiceAccountToken *bool
LocalObjectReference: 1 name string
ResourceQuota: 1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status ResourceQuotaStatus
ResourceQuotaSpec: 1 hard quantities, 2 scopes []string
ResourceQuotaStatus: 1 hard quantities, 2 used quantities
Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus
ServiceSpec: 1 ports []ServicePort, 2 selector strings, 3 clusterIP string, 4 type string, 5 externalIPs []string, 7 sessionAffinity string, 8 loadBalancerIP string, 9 loadBalancerSourceRanges []string, 10 externalName string, 11 externalTrafficPolicy string, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool, 17 ipFamilyPolicy *string, 18 clusterIPs []string, 19 ipFamilies []string, 20 allocateLoadBalancerNodePorts *bool, 21 loadBalancerClass *string, 22 internalTrafficPolicy *string
ServicePort: 1 name string, 2 protocol string, 3 port int, 4 targetPort intOrString, 5 nodePort int, 6 appProtocol *string
ServiceStatus: 1 loadBalancer LoadBalancerStatus
LoadBalancerStatus:
Role: 1 metadata ObjectMeta, 2 rules []PolicyRule
ClusterRole: 1 metadata ObjectMeta, 2 rules []PolicyRule, 3 aggregationRule *AggregationRule
AggregationRule: 1 clusterRoleSelectors []LabelSelector
PolicyRule: 1 verbs []string, 2 apiGroups []string, 3 resources []string, 4 resourceNames []string, 5 nonResourceURLs []string
RoleBinding: 1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef
ClusterRoleBinding: 1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef
Subject: 1 kind string, 2 apiGroup string, 3 name string, 4 namespace string
RoleRef: 1 apiGroup string, 2 kind string, 3 name string
SelfSubjectReview: 1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus
SelfSubjectReviewStatus: 1 userInfo UserInfo
UserInfo: 1 username string, 2 uid string, 3 groups []string, 4 extra lists
TokenRequest: 1 metadata ObjectMeta, 2 spec TokenRequestSpec, 3 status TokenRequestStatus
TokenRequestSpec: 1 audiences []string, 3 boundObjectRef *BoundObjectReference, 4 expirationSeconds *int
BoundObjectReference: 1 kind string, 2 apiVersion string, 3 name string, 4 uid string
TokenRequestStatus: 1 token string, 2 expirationTimestamp time
TokenReview: 1 metadata ObjectMeta, 2 spec TokenReviewSpec, 3 status TokenReviewStatus
TokenReviewSpec: 1 token string, 2 audiences []string
TokenReviewStatus: 1 authenticated bool, 2 user UserInfo, 3 error string, 4 audiences []string
SubjectAccessReview: 1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus
LocalSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus
SubjectAccessReviewSpec: 1 resourceAttributes *ResourceAttributes, 2 nonResourceAttributes *NonResourceAttributes, 3 user string, 4 groups []string, 5 extra lists, 6 uid string
SelfSubjectRulesReview: 1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec, 3 status SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec: 1 namespace string
SubjectRulesReviewStatus: 1 resourceRules []ResourceRule, 2 nonResourceRules []NonResourceRule, 3 incomplete bool, 4 evaluationError string
ResourceRule: 1 verbs []string, 2 apiGroups []string, 3 resources []string, 4 resourceNames []string
NonResourceRule: 1 verbs []string, 2 nonResourceURLs []string
CertificateSigningRequest: 1 metadata ObjectMeta, 2 spec CertificateSigningRequestSpec, 3 status CertificateSigningRequestStatus
CertificateSigningRequestSpec: 1 request base64, 2 username string, 3 uid string, 4 groups []string, 5 usages []string, 6 extra lists, 7 signerName string, 8 expirationSeconds *int
CertificateSigningRequestStatus: 1 conditions []CertificateSigningRequestCondition, 2 certificate base64
CertificateSigningRequestCondition: 1 type string, 2 reason string, 3 message string, 4 lastUpdateTime time, 5 lastTransitionTime time, 6 status string
SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: 1 resourceAttributes *ResourceAttributes, 2 nonResourceAttributes *NonResourceAttributes
ResourceAttributes: 1 namespace string, 2 verb string, 3 group string, 4 version string, 5 resource string, 6 subresource string, 7 name string
NonResourceAttributes: 1 path string, 2 verb string
SubjectAccessReviewStatus: 1 allowed bool, 2 reason string, 3 evaluationError string, 4 denied bool
Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus
DeploymentSpec: 1 replicas *int, 2 selector *LabelSelector, 3 template PodTemplateSpec, 4 strategy DeploymentStrategy, 5 minReadySeconds int, 6 revisionHistoryLimit *int, 7 paused bool, 9 progressDeadlineSeconds *int
DeploymentStrategy: 1 type string, 2 rollingUpdate *RollingUpdateDeployment
RollingUpdateDeployment: 1 maxUnavailable intOrString, 2 maxSurge intOrString
Eviction: 1 metadata ObjectMeta, 2 deleteOptions *DeleteOptions
Binding: 1 metadata ObjectMeta, 2 target ObjectReference
ObjectReference: 1 kind string, 2 namespace string, 3 name string, 4 uid string, 5 apiVersion string, 6 resourceVersion string, 7 fieldPath string
Ingress: 1 metadata ObjectMeta, 2 spec IngressSpec, 3 status IngressStatus
IngressSpec: 1 defaultBackend *IngressBackend, 2 tls []IngressTLS, 3 rules []IngressRule, 4 ingressClassName *string
IngressBackend: 3 resource *TypedLocalObjectReference, 4 service *IngressServiceBackend
TypedLocalObjectReference: 1 apiGroup *string, 2 kind string, 3 name string
IngressServiceBackend: 1 name string, 2 port ServiceBackendPort
ServiceBackendPort: 1 name string, 2 number int
IngressTLS: 1 hosts []string, 2 secretName string
IngressRule: 1 host string, 2 . IngressRuleValue
IngressRuleValue: 1 http *HTTPIngressRuleValue
HTTPIngressRuleValue: 1 paths []HTTPIngressPath
HTTPIngressPath: 1 path string, 2 backend IngressBackend, 3 pathType *string
IngressStatus: 1 loadBalancer LoadBalancerStatus
HorizontalPodAutoscaler: 1 metadata ObjectMeta, 2 spec HorizontalPodAutoscalerSpec, 3 status HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec: 1 scaleTargetRef CrossVersionObjectReference, 2 minReplicas *int, 3 maxReplicas int, 4 targetCPUUtilizationPercentage *int
CrossVersionObjectReference: 1 kind string, 2 name string, 3 apiVersion string
HorizontalPodAutoscalerStatus: 1 observedGeneration *int, 2 lastScaleTime time, 3 currentReplicas int, 4 desiredReplicas int, 5 currentCPUUtilizationPercentage *int
DeploymentStatus: 1 observedGeneration int, 2 replicas int, 3 updatedReplicas int, 4 availableReplicas int, 5 unavailableReplicas int, 7 readyReplicas int, 8 collisionCount *int
Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus
JobSpec: 1 parallelism *int, 2 completions *int, 3 activeDeadlineSeconds *int, 4 selector *LabelSelector, 5 manualSelector *bool, 6 template PodTemplateSpec, 7 backoffLimit *int, 8 ttlSecondsAfterFinished *int, 9 completionMode *string, 10 suspend *bool
JobStatus: 4 active int, 5 succeeded int, 6 failed int, 7 completedIndexes string
CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status CronJobStatus
CronJobSpec: 1 schedule string, 2 startingDeadlineSeconds *int, 3 concurrencyPolicy string, 4 suspend *bool, 5 jobTemplate JobTemplateSpec, 6 successfulJobsHistoryLimit *int, 7 failedJobsHistoryLimit *int, 8 timeZone *string
CronJobStatus:
JobTemplateSpec: 1 metadata ObjectMeta, 2 spec JobSpec
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
PodSpec: 2 containers []Container, 3 restartPolicy string, 4 terminationGracePeriodSeconds *int, 5 activeDeadlineSeconds *int, 6 dnsPolicy string, 7 nodeSelector strings, 8 serviceAccountName string, 9 serviceAccount string, 10 nodeName string, 11 hostNetwork bool, 12 hostPID bool, 13 hostIPC bool, 14 securityContext *PodSecurityContext, 15 imagePullSecrets []LocalObjectReference, 16 hostname string, 17 subdomain string, 19 schedulerName string, 20 initContainers []Container, 21 automountServiceAccountToken *bool, 24 priorityClassName string, 25 priority *int
PodSecurityContext: 2 runAsUser *int, 3 runAsNonRoot *bool, 4 supplementalGroups []int, 5 fsGroup *int, 6 runAsGroup *int
Container: 1 name string, 2 image string, 3 command []string, 4 args []string, 5 workingDir string, 6 ports []ContainerPort, 7 env []EnvVar, 8 resources ResourceRequirements, 13 terminationMessagePath string, 14 imagePullPolicy string, 16 stdin bool, 17 stdinOnce bool, 18 tty bool, 20 terminationMessagePolicy string
ContainerPort: 1 name string, 2 hostPort int, 3 containerPort int, 4 protocol string, 5 hostIP string
EnvVar: 1 name string, 2 value string
ResourceRequirements: 1 limits quantities, 2 requests quantities
PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: 1 minAvailable *intOrString, 2 selector *LabelSelector, 3 maxUnavailable *intOrString, 4 unhealthyPodEvictionPolicy *string
PodDisruptionBudgetStatus: 1 observedGeneration int, 3 disruptionsAllowed int, 4 currentHealthy int, 5 desiredHealthy int, 6 expectedPods int
PriorityClass: 1 metadata ObjectMeta, 2 value int, 3 globalDefault bool, 4 description string, 5 preemptionPolicy *string
";

static MESSAGES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, fields)| (name, fields.split(',').filter_map(field).collect()))
        .collect()
});

fn field(text: &'static str) -> Option<Field> {
    let mut words = text.split_whitespace();
    let (number, name, ty) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let (repeated, ty) = ty.strip_prefix("[]").map_or((false, ty), |rest| (true, rest));
    let (pointer, ty) = ty.strip_prefix('*').map_or((false, ty), |rest| (true, rest));
    Some(Field {
        number,
        name,
        kind: kind(ty),
        pointer,
        repeated,
    })
}

fn kind(ty: &'static str) -> Kind {
    match ty {
        "string" => Kind::Text,
        "int" => Kind::Int,
        "bool" => Kind::Bool,
        "time" => Kind::Time,
        "intOrString" => Kind::IntOrString,
        "strings" => Kind::TextMap,
        "bytes" => Kind::BytesMap,
        "json" => Kind::Json,
        "base64" => Kind::Bytes,
        "lists" => Kind::ListMap,
        "quantities" => Kind::QuantityMap,
        message => Kind::Message(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_closed() {
        for line in TABLE.lines().filter(|l| !l.is_empty()) {
            let (name, fields) = line.split_once(':').unwrap();
            let written = fields.split(',').filter(|f| !f.trim().is_empty()).count();
            let read = message(name).unwrap();
            assert_eq!(read.len(), written, "{name}");
            for field in read {
                if let Kind::Message(other) = field.kind {
                    assert!(message(other).is_some(), "{name}.{}: {other}", field.name);
                }
            }
        }
    }
}
