//! Service: a load balancer gets an address.

use super::{Around, Memory, Next, Workload, model::roll};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus};
use std::net::Ipv4Addr;

/// The networks for documentation (RFC 5737): nobody has these addresses.
const NETWORKS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];
/// Addresses of each: without that of the network and the one for all.
const HOSTS: u64 = 254;

impl Workload for Service {
    const HAS_PODS: bool = false;
    type Status = ServiceStatus;

    fn status(&self) -> Option<&ServiceStatus> {
        self.status.as_ref()
    }

    fn with_status(mut self, status: ServiceStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// A load balancer, or one that no longer is.
    fn is_played(&self) -> bool {
        balances(self) || has_address(self)
    }

    fn next(&self, _: Option<Memory>, _: &Around<'_>) -> Next<ServiceStatus> {
        let mut status = self.status.clone().unwrap_or_default();
        if !balances(self) {
            status.load_balancer = Some(LoadBalancerStatus::default());
        } else if !has_address(self) {
            let ingress = LoadBalancerIngress {
                ip: Some(address(self).to_string()),
                ip_mode: Some("VIP".to_owned()),
                ..LoadBalancerIngress::default()
            };
            status.load_balancer = Some(LoadBalancerStatus {
                ingress: Some(vec![ingress]),
            });
        }
        Next {
            status,
            memory: Memory::default(),
            wake_at: None,
        }
    }
}

fn balances(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

fn has_address(service: &Service) -> bool {
    let balancer = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    balancer.is_some_and(|balancer| balancer.ingress.iter().flatten().next().is_some())
}

/// By namespace and name: in every cluster and in every run the same. Of 762 addresses, two Services may have one.
fn address(service: &Service) -> Ipv4Addr {
    let meta = &service.metadata;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let number = roll(0, &[&part(&meta.namespace), &part(&meta.name)]);
    let network = usize::try_from(number / HOSTS % 3).unwrap_or_default();
    let host = u8::try_from(1 + number % HOSTS).unwrap_or(1);
    let [a, b, c] = NETWORKS.get(network).copied().unwrap_or([192, 0, 2]);
    Ipv4Addr::new(a, b, c, host)
}
